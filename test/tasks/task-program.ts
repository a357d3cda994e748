/** Worker process for tasks that a test can kill. Its handlers append to the ledger file. */
import { appendFileSync } from 'node:fs';
import { Perdure, task } from '../../src/index.ts';

/** The options in the command line of the program. */
export interface TaskProgramOptions {
  readonly store: string;
  readonly ledger: string;
  readonly leaseMs: number;
  /** `hold`: handlers never end and ignore their signal. `work`: handlers take 3 ms. */
  readonly how: 'hold' | 'work';
  /** Whether to register no task. Such a worker only ends the work of crashed ones. */
  readonly withoutTasks?: boolean;
}

/** The messages to the parent: the worker is ready, or a handler has started. */
export type TaskReport = 'ready' | 'running' | 'onFail';

const options = JSON.parse(process.argv[2] ?? '') as TaskProgramOptions;
const { store, ledger, leaseMs, how } = options;

function report(what: TaskReport): void {
  process.send?.(what);
}

async function takeTime(): Promise<void> {
  await (how === 'hold'
    ? new Promise(() => undefined)
    : new Promise((resolve) => setTimeout(resolve, 3)));
}

const work = task('work', async (ctx) => {
  report('running');
  await takeTime();
  appendFileSync(ledger, `${ctx.runId}\n`);
});
const fails = task(
  'fails',
  () => {
    throw new Error('it always does');
  },
  {
    onFail: {
      handler: async (ctx) => {
        report('onFail');
        await takeTime();
        appendFileSync(ledger, `${ctx.runId} told\n`);
      },
    },
  },
);
const perdure = await Perdure.open(store);
await perdure.startWorker({
  tasks: options.withoutTasks === true ? [] : [work, fails],
  activityConcurrency: 10,
  activityLease: leaseMs,
  cancelGrace: '1h',
});
process.once('disconnect', () => process.exit(0));
report('ready');
