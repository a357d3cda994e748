/** A process that debounces requests, or runs the debounced task, until it is killed. */
import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { Perdure, task } from '../../src/index.ts';

/** The options in the command line of the program. */
export interface DebounceProgramOptions {
  readonly store: string;
  readonly ledger: string;
  /** The caller whose requests this process sends. Absent: a worker. */
  readonly caller?: { readonly name: string; readonly from: number };
}

/** The input of the task. */
interface DebouncedInput {
  readonly key: string;
  readonly caller: string;
  readonly n: number;
}

const options = JSON.parse(process.argv[2] ?? '') as DebounceProgramOptions;
const perdure = await Perdure.open(options.store);
const write = (kind: 'acked' | 'ran', id: string, { key, caller, n }: DebouncedInput) =>
  appendFileSync(options.ledger, `${kind} ${key} ${caller} ${n} ${id}\n`);

const index = task('index', async (ctx, input: DebouncedInput) => {
  await delay(2);
  write('ran', ctx.runId, input);
});

process.once('disconnect', () => process.exit(0));
if (options.caller === undefined) {
  await perdure.startWorker({ tasks: [index], activityLease: 1_000, activityConcurrency: 5 });
  process.send?.('ready');
} else {
  const { name, from } = options.caller;
  process.send?.('ready');
  for (let n = from; ; n += 1) {
    // A key of its own, and one that all callers share.
    for (const key of [`own-${name}`, 'shared']) {
      const input = { key, caller: name, n };
      const debounce = { key, wait: 15, maxWait: 60 };
      const { id } = await perdure.client.runTask(index, input, { debounce });
      write('acked', id, input);
    }
    if (n % 7 === 0) await delay(25);
  }
}
