/** `npm run crash -- --kills 1000`: the crash loop for any duration. */
import { parseArgs } from 'node:util';
import { runCrashLoop } from './helpers/crash-loop.ts';
import { createPostgresLoopStore, createSqliteLoopStore } from './helpers/loop-store.ts';

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '100' },
    workers: { type: 'string', default: '3' },
    'lease-ms': { type: 'string', default: '1000' },
    pauses: { type: 'string' },
    provider: { type: 'string', default: 'sqlite' },
    restarts: { type: 'string', default: '0' },
    cuts: { type: 'string', default: '0' },
    actions: { type: 'string' },
    unfenced: { type: 'boolean', default: false },
  },
});
const kills = Number(values.kills);
const workers = Number(values.workers);
if (!Number.isSafeInteger(kills) || kills < 1 || !Number.isSafeInteger(workers) || workers < 2) {
  throw new Error(
    'Usage: npm run crash -- --kills <1 or more> [--workers <2 or more>] [--actions <n>] [--provider sqlite|postgres [--restarts <n>] [--cuts <n>]] [--unfenced]',
  );
}

const hasFaults = values.unfenced || Number(values.restarts) + Number(values.cuts) > 0;
const report = await runCrashLoop({
  kills,
  workers,
  pauses: values.pauses === undefined ? Math.ceil(kills / 8) : Number(values.pauses),
  leaseMs: Number(values['lease-ms']),
  instances: kills * 25,
  fencing: !values.unfenced,
  restarts: Number(values.restarts),
  cuts: Number(values.cuts),
  // A store that is unavailable or does not fence writes would fail the actions.
  actions: Number(values.actions ?? (hasFaults ? 0 : kills)),
  createStore: values.provider === 'postgres' ? createPostgresLoopStore : createSqliteLoopStore,
  onProgress: (text) => process.stdout.write(process.stdout.isTTY ? `\r${text}` : ''),
});
if (process.stdout.isTTY) console.log();
const { violations, ...figures } = report;
console.log(figures);
for (const violation of violations.slice(0, 50)) console.error(violation);
console.log(violations.length === 0 ? 'No violation.' : `${violations.length} violations.`);
if (violations.length > 0) process.exitCode = 1;
