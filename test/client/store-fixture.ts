import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { LocalClient, type LocalClientOptions } from '../../src/client/local-client.ts';
import { encodeEvent, type HistoryEvent } from '../../src/model/event.ts';
import { randomToken } from '../../src/model/values/random-id.ts';
import type { Hint, Provider } from '../../src/providers/contract/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import type { OrchestrationItem } from '../../src/providers/contract/orchestration-queue.ts';
import type { Turn, TurnOutcome } from '../../src/providers/contract/turn.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';

/** Opens an in-memory store with a fake clock, and a client. Both are closed after the test. */
export async function openStore(options: Partial<LocalClientOptions> = {}) {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  onTestFinished(() => provider.close());
  const client = new LocalClient({ provider, clock, ...options });
  onTestFinished(() => client.close());
  return { clock, provider, client };
}

/** Returns the path of a store in a folder that is deleted after the test. */
export async function temporaryStorePath(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-client-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, 'store.db');
}

/** The parts of a turn that a test sets. */
export interface TurnParts extends Partial<Turn> {
  readonly history?: readonly HistoryEvent[];
}

/** Claims an instance and commits a turn with the given parts, as a worker would. */
export async function takeTurn(
  provider: Provider,
  instanceId: string,
  { history = [], ...parts }: TurnParts,
): Promise<void> {
  const item = await claim(provider, instanceId);
  const turn: Turn = {
    turnId: randomToken(),
    version: '1',
    firstEventId: item.historyLength + 1,
    events: history.map(encodeEvent),
    workItems: [],
    timers: [],
    children: [],
    messages: [],
    activityCancels: [],
    childCancels: [],
    cleanupMs: 0,
    timerWithdrawals: [],
    outcome: { status: 'running' },
    ...parts,
  };
  const messageKeys = item.messages.map(({ messageKey }) => messageKey);
  const [result] = await provider.ackOrchestrationItems([
    { lockToken: item.lockToken, messageKeys, turn },
  ]);
  if (result?.ok !== true) throw result?.error ?? new Error('The ack was not answered.');
}

/** Ends an instance. */
export async function finish(
  provider: Provider,
  instanceId: string,
  outcome: TurnOutcome = { status: 'completed', payload: '"done"' },
): Promise<void> {
  await takeTurn(provider, instanceId, { outcome });
}

async function claim(provider: Provider, instanceId: string): Promise<OrchestrationItem> {
  const items = await provider.fetchOrchestrationItems({ max: 5_000, lockMs: 60_000, waitMs: 0 });
  const others = items.filter((item) => item.instanceId !== instanceId);
  await provider.abandonOrchestrationItems(
    others.map(({ lockToken }) => ({ lockToken, delayMs: 0, giveBackClaim: true })),
  );
  const item = items.find((candidate) => candidate.instanceId === instanceId);
  if (item === undefined) throw new Error(`Instance ${instanceId} has no message.`);
  return item;
}

/** Returns a provider with some methods replaced. */
export function withChanges(provider: Provider, changes: Partial<Provider>): Provider {
  return { ...provider, ...changes };
}

/** Records row reads and counts hint listeners. A test can emit hints or drop those of the store. */
export function observe(provider: Provider) {
  const listeners = new Set<(hint: Hint) => void>();
  const seen = {
    reads: [] as (readonly string[])[],
    listening: 0,
    dropsHints: false,
    emitHint: (hint: Hint) => listeners.forEach((listener) => listener(hint)),
  };
  const observed = withChanges(provider, {
    getInstances(instanceIds) {
      seen.reads.push(instanceIds);
      return provider.getInstances(instanceIds);
    },
    hints(listener) {
      seen.listening++;
      listeners.add(listener);
      const stop = provider.hints((hint) => {
        if (!seen.dropsHints) listener(hint);
      });
      return () => {
        seen.listening--;
        listeners.delete(listener);
        stop();
      };
    },
  });
  return { provider: observed, seen };
}

/** Runs the event loop until all work that needs no timer is done. */
export async function settle(): Promise<void> {
  for (let round = 0; round < 20; round++) await new Promise((resolve) => setImmediate(resolve));
}

/** Returns the state of a promise without waiting for it. */
export async function stateOf(
  promise: Promise<unknown>,
): Promise<'pending' | 'resolved' | 'rejected'> {
  await settle();
  return Promise.race([
    promise.then(
      () => 'resolved' as const,
      () => 'rejected' as const,
    ),
    Promise.resolve('pending' as const),
  ]);
}

/** Resolves with the reason of a later rejection. Handles it now, so that it is never unhandled. */
export function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error('It resolved.');
    },
    (reason: unknown) => reason,
  );
}
