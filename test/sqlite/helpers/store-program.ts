/** A child process on a store: creates instances, or completes all that it can claim, until it gets `stop`. */
import { setTimeout as delay } from 'node:timers/promises';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import type { OrchestrationItem } from '../../../src/providers/contract/orchestration-queue.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { event, newInstance, newTurn } from '../../../src/testing/conformance/sample-data.ts';

export type Command =
  | { readonly kind: 'create'; readonly instanceId: string }
  | { readonly kind: 'share'; readonly prefix: string; readonly count: number }
  /** Waits and listens until the store is idle, then stops both and leaves the store open. */
  | { readonly kind: 'waitAndLeave' }
  | { readonly kind: 'stop' };

export type Report =
  | { readonly kind: 'ready' }
  | { readonly kind: 'created'; readonly at: number }
  | {
      readonly kind: 'done';
      readonly ended: readonly string[];
      readonly errors: readonly string[];
    };

const store = await openSqlite({ path: process.argv[2] ?? '' });
const stop = new AbortController();
const errors: string[] = [];
const ended: string[] = [];
const running: Promise<void>[] = [];

process.on('message', (command: Command) => {
  running.push(execute(command).catch((error: unknown) => void errors.push(String(error))));
});
report({ kind: 'ready' });

async function execute(command: Command): Promise<void> {
  switch (command.kind) {
    case 'create': {
      await store.createInstances([newInstance(command.instanceId)]);
      report({ kind: 'created', at: performance.timeOrigin + performance.now() });
      return;
    }
    case 'share':
      // Concurrent loops on the same ids and work, so that calls of one process race too.
      await Promise.all([create(command), create(command), endAll(store), endAll(store)]);
      return;
    case 'waitAndLeave': {
      const stopListening = store.hints(() => undefined);
      const waiting = store.fetchWorkItems({
        max: 1,
        lockMs: 1_000,
        waitMs: 600_000,
        signal: stop.signal,
      });
      while (!process.getActiveResourcesInfo().includes('FSEventWrap')) await delay(5);
      stop.abort();
      await waiting;
      stopListening();
      process.disconnect();
      return;
    }
    case 'stop':
      stop.abort();
      running.length = 0;
      setImmediate(() => void finish());
  }
}

async function create({ prefix, count }: { prefix: string; count: number }): Promise<void> {
  for (let i = 0; i < count; i++) await store.createInstances([newInstance(`${prefix}-${i}`)]);
}

async function endAll(store: Provider): Promise<void> {
  while (!stop.signal.aborted) {
    const items = await store.fetchOrchestrationItems({
      max: 5,
      lockMs: 30_000,
      waitMs: 5_000,
      signal: stop.signal,
    });
    await end(items);
  }
}

async function end(items: readonly OrchestrationItem[]): Promise<void> {
  const results = await store.ackOrchestrationItems(
    items.map(({ lockToken, messages }) => ({
      lockToken,
      messageKeys: messages.map(({ messageKey }) => messageKey),
      turn: newTurn({
        events: [event('started'), event(process.argv[3] ?? '')],
        outcome: { status: 'completed', payload: null },
      }),
    })),
  );
  for (const [index, result] of results.entries()) {
    if (result.ok) ended.push(items[index]?.instanceId ?? '');
    else errors.push(String(result.error));
  }
}

async function finish(): Promise<void> {
  await store.close();
  report({ kind: 'done', ended, errors });
  process.disconnect();
}

function report(report: Report): void {
  process.send?.(report);
}
