/** A worker whose activity does not stop: it ignores its signal or blocks the event loop. */
import { activity, orchestration, Perdure } from '../../../src/index.ts';
import type { CommitResult } from '../../../src/providers/contract/turn.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { overrideProvider } from '../override-provider.ts';

/** The settings of the program, passed on its command line. */
export interface StubbornOptions {
  readonly store: string;
  readonly name: string;
  readonly leaseMs: number;
  /** `ignore`: never ends. `block`: computes without a pause. `answer`: returns immediately. */
  readonly how: 'ignore' | 'block' | 'answer';
  readonly blockMs?: number;
  /** Registers no activity. */
  readonly withoutActivity?: boolean;
}

/** A message to the test. */
export type StubbornReport =
  | { readonly kind: 'ready' | 'running' }
  | { readonly kind: 'acked'; readonly accepted: boolean };

const options = JSON.parse(process.argv[2] ?? '') as StubbornOptions;
const { store, name, leaseMs, how, blockMs = 0 } = options;

// Resolves when the report has left the process, even if the event loop blocks afterwards.
function report(what: StubbornReport): Promise<void> {
  return new Promise((resolve) => process.send?.(what, () => resolve()));
}

async function reportAcks(results: Promise<readonly CommitResult[]>) {
  const answers = await results;
  for (const { ok } of answers) await report({ kind: 'acked', accepted: ok });
  return answers;
}

const sqlite = await openSqlite({ path: store });
const perdure = await Perdure.open(
  overrideProvider(sqlite, {
    ackWorkItems: (acks) => reportAcks(sqlite.ackWorkItems(acks)),
    ackTurns: (acks) => reportAcks(sqlite.ackTurns(acks)),
  }),
);
const stubborn = activity('stubborn', async (): Promise<string> => {
  await report({ kind: 'running' });
  if (how === 'ignore') return new Promise(() => undefined);
  const until = performance.now() + (how === 'block' ? blockMs : 0);
  while (performance.now() < until);
  return name;
});
const run = orchestration('run', (ctx) => ctx.call(stubborn));
await perdure.startWorker({
  orchestrations: [run],
  activities: options.withoutActivity === true ? [] : [stubborn],
  activityLease: leaseMs,
  orchestrationLease: leaseMs,
  cancelGrace: '1h',
});
process.once('disconnect', () => process.exit(0));
await report({ kind: 'ready' });
