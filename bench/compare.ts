/**
 * `npm run bench:compare -- --before <folder> [--provider postgres] [--only hello] [--processes <n>] [--slices <n>]`: compares this build
 * with the build in the `dist/` of another checkout. Each process loads both and runs them in alternating slices. With `--apart`, each build has
 * its own processes, which alternate: a process that loads two builds compiles less specialized code.
 */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { isWorkload, workloadNames, type SliceCosts } from './compare-workloads.ts';
import { runProgram } from './run-program.ts';
import { isProviderName, openStores } from './stores.ts';

const { values } = parseArgs({
  options: {
    before: { type: 'string' },
    after: { type: 'string', default: join(import.meta.dirname, '..') },
    provider: { type: 'string', default: 'sqlite' },
    only: { type: 'string', multiple: true, default: ['hello', 'steps', 'tasks'] },
    processes: { type: 'string', default: '6' },
    slices: { type: 'string', default: '8' },
    apart: { type: 'boolean', default: false },
  },
});
const { provider, before, after, only, apart } = values;
const [processes, slices] = [Number(values.processes), Number(values.slices)];
const counts = [processes, slices].every((count) => Number.isSafeInteger(count) && count >= 1);
if (before === undefined || !isProviderName(provider) || !only.every(isWorkload) || !counts) {
  throw new Error(
    'Usage: npm run bench:compare -- --before <folder> [--after <folder>] [--provider sqlite|postgres] ' +
      `[--apart] [--processes <n>] [--slices <n>] [--only ${workloadNames.join('|')}]`,
  );
}

const script = join(import.meta.dirname, 'compare-program.ts');
const folders = [resolve(before), resolve(after)];
const stores = await openStores(provider);

/** Runs builds in one process. Returns the costs of each slice, per build. */
async function runSlices(
  workload: string,
  builds: readonly string[],
): Promise<readonly (readonly SliceCosts[])[]> {
  const made = await Promise.all(builds.map((_, index) => stores.make(`build-${index}`)));
  try {
    const setup = { workload, slices, builds: builds.map((folder, i) => [folder, made[i]]) };
    return (await runProgram(`compare ${workload}`, [
      '--expose-gc',
      script,
      JSON.stringify(setup),
    ])) as unknown as readonly (readonly SliceCosts[])[];
  } finally {
    for (const store of made) await stores.remove(store);
  }
}

/**
 * Runs both builds, in one process or in one after the other. Returns after / before over all slices, per cost. Also returns the
 * ratios of the wall times of slices that followed each other: pauses of the machine hardly change their median.
 */
async function compareOnce(
  workload: string,
  round: number,
): Promise<{ readonly ratios: Record<string, number>; readonly pairs: readonly number[] }> {
  const slicesOf: (readonly SliceCosts[])[] = [];
  if (apart) {
    for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const found = await runSlices(workload, [folders[index] ?? '']);
      slicesOf[index] = found.flat();
    }
  } else {
    const found = await runSlices(workload, folders);
    for (const index of [0, 1]) slicesOf[index] = found.flatMap((each) => each[index] ?? []);
  }
  const sum = (index: number, cost: keyof SliceCosts): number =>
    (slicesOf[index] ?? []).reduce((total, each) => total + (each[cost] ?? Number.NaN), 0);
  const costs = ['wallMs', 'processCpuMs', 'serverCpuMs'] as const;
  const ratios = Object.fromEntries(costs.map((cost) => [cost, sum(1, cost) / sum(0, cost)]));
  const [first = [], second = []] = slicesOf;
  return {
    ratios,
    pairs: second.map(({ wallMs }, n) => wallMs / (first[n]?.wallMs ?? Number.NaN)),
  };
}

/** The geometric mean of ratios and its standard error, as text. */
function summarize(ratios: readonly number[]): string {
  const logs = ratios.map(Math.log);
  const mean = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  const variance = logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (logs.length - 1);
  const ratio = Math.exp(mean);
  return `${ratio.toFixed(3)} ± ${(ratio * Math.sqrt(variance / logs.length)).toFixed(3)}`;
}

/** The quartiles of ratios, as text. */
function quartiles(ratios: readonly number[]): string {
  const sorted = ratios.toSorted((a, b) => a - b);
  const at = (share: number): string =>
    (sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN).toFixed(3);
  return `median of slices ${at(0.5)} (${at(0.25)} to ${at(0.75)})`;
}

try {
  console.log('time after / before, geometric mean ± standard error over processes');
  for (const workload of only) {
    const results: Awaited<ReturnType<typeof compareOnce>>[] = [];
    for (let n = 0; n < processes; n++) results.push(await compareOnce(workload, n));
    const of = (cost: string): string =>
      summarize(results.map(({ ratios }) => ratios[cost] ?? Number.NaN));
    const pairs = quartiles(results.flatMap((each) => each.pairs));
    const server = provider === 'postgres' ? `, CPU of the server ${of('serverCpuMs')}` : '';
    console.log(
      `${provider} ${workload}: wall ${of('wallMs')}, ${pairs}, CPU of the process ${of('processCpuMs')}${server}`,
    );
  }
} finally {
  await stores.close();
}
