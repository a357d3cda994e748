/** `npm run model -- --runs 100000`: the model check with any number of runs. */
import { parseArgs } from 'node:util';
import { checkModel } from './helpers/check-model.ts';
import type { Profile } from './helpers/scenario.ts';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '5000' },
    profile: { type: 'string' },
    seed: { type: 'string' },
    path: { type: 'string' },
  },
});
const runs = Number(values.runs);
const all: readonly Profile[] = ['races', 'crashes', 'takeovers'];
const profiles = all.filter((profile) => profile === (values.profile ?? profile));
if (!Number.isSafeInteger(runs) || runs < 1 || profiles.length === 0) {
  throw new Error(
    'Usage: npm run model -- [--runs <1 or more>] [--profile races|crashes|takeovers] [--seed=<seed> --path <path>]',
  );
}
for (const profile of profiles) {
  const report = await checkModel({
    profile,
    runs,
    seed: values.seed === undefined ? undefined : Number(values.seed),
    path: values.path,
  });
  const { failure, seconds } = report;
  console.log(
    `${profile}: ${report.runs} runs in ${seconds.toFixed(1)} s (${Math.round(report.runs / seconds)} a second), seed ${report.seed}.`,
  );
  for (const [situation, count] of report.coverage.counts) {
    console.log(`${String(count).padStart(8)} ${situation}`);
  }
  if (failure === undefined) console.log('No divergence.');
  else {
    console.error(failure);
    process.exitCode = 1;
  }
}
// Simulated crashes leave workers of dead processes behind, whose timers would keep this process alive.
// exit() drops writes to a pipe that are pending.
await new Promise((resolve) => process.stdout.write('', resolve));
process.exit();
