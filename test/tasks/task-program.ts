/** A worker process for tasks that can be killed at any moment; a file tells what its handlers did. */
import { appendFileSync } from 'node:fs';
import { Perdure, task } from '../../src/index.ts';

/** What the program is told on its command line. */
export interface TaskProgramOptions {
  readonly store: string;
  readonly ledger: string;
  readonly leaseMs: number;
  /** `hold`: handlers never end, whatever they are told. `work`: they take a moment. */
  readonly how: 'hold' | 'work';
  /** Knows no task: it is there to end what others left. */
  readonly withoutTasks?: boolean;
}

/** What it tells: that it is at work, and which handler has begun. */
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
