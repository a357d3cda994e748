import { encodeEvent, type HistoryEvent } from '../../src/model/event.ts';
import { encodeBlockedDetails } from '../../src/model/failures/blocked.ts';
import type { DefinitionKind, PauseDefinition } from '../../src/providers/contract/pausing.ts';
import type { Turn } from '../../src/providers/contract/turn.ts';
import type { NewWorker } from '../../src/providers/contract/workers.ts';
import { newWorker, workItem } from '../../src/testing/conformance/sample-data.ts';
import type { StoreUnderTest } from '../../src/testing/conformance/store-under-test.ts';

export const failure = JSON.stringify({
  name: 'E',
  message: 'card declined',
  code: 'CARD_DECLINED',
});
const retry = JSON.stringify({
  retry: {
    maxAttempts: 10,
    backoff: 'fixed',
    initialDelayMs: 1,
    maxDelayMs: 1,
    factor: 1,
    jitter: 0,
    nonRetryable: [],
  },
});

export const started: Extract<HistoryEvent, { kind: 'executionStarted' }> = {
  kind: 'executionStarted',
  at: 1,
  name: 'sample',
  version: '1',
  payload: null,
};
export const scheduled = (operation: number, name: string): HistoryEvent => ({
  kind: 'activityScheduled',
  at: 1,
  operation,
  name,
  payload: null,
});
export const awaited = (operation: number, name: string): HistoryEvent => ({
  kind: 'eventAwaited',
  at: 1,
  operation,
  name,
});
export const timer = (operation: number, fireAt: number): HistoryEvent => ({
  kind: 'timerCreated',
  at: 1,
  operation,
  fireAt,
});

/** Begins instance `a` with these events and turn parts. */
export async function begin(
  store: StoreUnderTest,
  events: readonly HistoryEvent[],
  parts: Partial<Turn> = {},
): Promise<void> {
  await store.begin('a', { events: [started, ...events].map(encodeEvent), ...parts });
}

export async function fail(store: StoreUnderTest, delayMs: number): Promise<void> {
  const { lockToken } = await store.claimWorkOne({ worker: 'w1' });
  await store.provider.retryWorkItems([{ lockToken, delayMs, failure }]);
}

export async function block(store: StoreUnderTest, code: string, reason: string): Promise<void> {
  await store.create('a');
  const { lockToken } = await store.claimOne();
  const blocked = { reason, buildId: 'b1', details: encodeBlockedDetails({ code, worker: 'w1' }) };
  await store.provider.abandonOrchestrationItems([
    { lockToken, delayMs: 8_000, giveBackClaim: true, blocked },
  ]);
}

export async function pause(store: StoreUnderTest, reason: string): Promise<void> {
  await store.provider.pauseInstances([{ instanceId: 'a', tree: false, reason, actor: 'ada' }]);
}

export function definition(kind: DefinitionKind, name: string): PauseDefinition {
  return { kind, name, reason: null, actor: null };
}

/** A live worker with the definitions of the states. */
export const liveWorker = newWorker('live', {
  orchestrations: ['sample', 'ship'].map((name) => ({ name, version: '1' })),
  activities: ['charge'],
  tasks: ['mail'],
  heartbeatMs: 3_600_000,
});

/** A state of an instance, and how `why` explains it. */
export interface State {
  readonly state: string;
  /** Default: `liveWorker`. */
  readonly workers?: readonly NewWorker[];
  /** Brings instance `a` into the state. */
  readonly arrange: (store: StoreUnderTest) => Promise<unknown>;
  readonly waits: readonly object[];
  readonly text: string;
  readonly short: string;
}

export const childScheduled: Extract<HistoryEvent, { kind: 'childScheduled' }> = {
  kind: 'childScheduled',
  at: 1,
  operation: 1,
  name: 'ship',
  version: null,
  childId: 'c',
  payload: null,
};

export const charge = workItem(1, { name: 'charge', options: retry });
