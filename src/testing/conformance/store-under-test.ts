import assert from 'node:assert/strict';
import type { StoredEvent } from '../../model/event.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type {
  CancelInstance,
  StopResult,
  TerminateInstance,
} from '../../providers/contract/cancellation.ts';
import type {
  ExecutionRecord,
  InstanceRecord,
  NewInstance,
} from '../../providers/contract/instances.ts';
import type {
  FetchOrchestrationItemsParams,
  OrchestrationItem,
} from '../../providers/contract/orchestration-queue.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { ClaimedAtInsert, CommitResult, Turn } from '../../providers/contract/turn.ts';
import type {
  FetchWorkItemsParams,
  RenewResult,
  TurnAck,
  WorkItem,
  WorkOutcome,
} from '../../providers/contract/work-queue.ts';
import type { FakeClock } from '../fake-clock.ts';
import { expectCommitted, only } from './expectations.ts';
import type { CorruptRows } from './run-case.ts';
import { cleanupMs, event, label, newInstance, newTurn, raised } from './sample-data.ts';

/** The default lease of claims. */
export const lockMs = 10_000;

/** All readable data of one instance. */
export interface InstanceSnapshot {
  readonly record: InstanceRecord;
  readonly executions: readonly ExecutionRecord[];
  readonly histories: readonly (readonly StoredEvent[])[];
}

/** An instance after its first turn, with the values that its next turn requires. */
export interface BegunInstance {
  readonly instanceId: string;
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly turnId: string;
  readonly historyLength: number;
  readonly claimed: readonly ClaimedAtInsert[];
}

/** An empty store with its clock, and the helpers of the cases. */
export class StoreUnderTest {
  readonly provider: Provider;
  readonly clock: FakeClock;
  readonly #corrupt: ((target: CorruptRows) => Promise<void>) | undefined;
  readonly #reopen: (() => Promise<Provider>) | undefined;

  constructor(options: {
    readonly provider: Provider;
    readonly clock: FakeClock;
    readonly corrupt: ((target: CorruptRows) => Promise<void>) | undefined;
    readonly reopen: (() => Promise<Provider>) | undefined;
  }) {
    this.provider = options.provider;
    this.clock = options.clock;
    this.#corrupt = options.corrupt;
    this.#reopen = options.reopen;
  }

  /** Corrupts stored data. A provider without `corrupt` must skip the case. */
  async corrupt(target: CorruptRows): Promise<void> {
    assert.ok(
      this.#corrupt,
      'This case requires `corrupt`. Pass it, or skip the case with a reason.',
    );
    await this.#corrupt(target);
  }

  /** Opens the same store again, like another process. */
  async reopen(): Promise<Provider> {
    assert.ok(
      this.#reopen,
      'This case requires `reopen`. Pass it, or skip the case with a reason.',
    );
    return this.#reopen();
  }

  /** Creates an instance and returns its key. */
  async create(instanceId: string, parts: Partial<NewInstance> = {}): Promise<number> {
    const [result] = await this.provider.createInstances([newInstance(instanceId, parts)]);
    assert.equal(result?.kind, 'created', `${instanceId} should be created`);
    return result.instanceKey;
  }

  claim(
    params: Partial<FetchOrchestrationItemsParams> = {},
  ): Promise<readonly OrchestrationItem[]> {
    return this.provider.fetchOrchestrationItems({ max: 1_000, lockMs, waitMs: 0, ...params });
  }

  /** Claims, and expects exactly one instance. */
  async claimOne(params: Partial<FetchOrchestrationItemsParams> = {}): Promise<OrchestrationItem> {
    return only(await this.claim(params), 'claimed instance');
  }

  /** Acks all messages of a claim, with a turn that appends to its history. */
  async ack(
    item: OrchestrationItem,
    parts: Partial<Turn> = {},
    messageKeys: readonly number[] = item.messages.map((message) => message.messageKey),
  ): Promise<CommitResult> {
    const turn = newTurn({ firstEventId: item.historyLength + 1, ...parts });
    const acks = [{ lockToken: item.lockToken, messageKeys, turn }];
    return only(await this.provider.ackOrchestrationItems(acks), 'result');
  }

  /** Acks, and expects the turn to be committed. */
  async commit(
    item: OrchestrationItem,
    parts: Partial<Turn> = {},
    messageKeys?: readonly number[],
  ): Promise<readonly ClaimedAtInsert[]> {
    return expectCommitted(await this.ack(item, parts, messageKeys));
  }

  /** Creates an instance and commits its first turn. No other instance may be claimable. */
  async begin(
    instanceId: string,
    turnParts: Partial<Turn> = {},
    instanceParts: Partial<NewInstance> = {},
  ): Promise<BegunInstance> {
    await this.create(instanceId, instanceParts);
    const item = await this.claimOne();
    assert.equal(item.instanceId, instanceId);
    const turn = { turnId: randomToken(), events: [event('begun')], ...turnParts };
    const claimed = await this.commit(item, turn);
    const { instanceKey, incarnation } = item;
    const historyLength = turn.events.length;
    return { instanceId, instanceKey, incarnation, turnId: turn.turnId, historyLength, claimed };
  }

  /** Acks work items and commits a turn in one call. */
  async ackTurn(
    begun: BegunInstance,
    lockTokens: readonly string[],
    parts: Partial<Turn> = {},
    fences: Partial<TurnAck> = {},
  ): Promise<CommitResult> {
    const { instanceKey, incarnation, turnId: lastTurn } = begun;
    const turn = newTurn({ firstEventId: begun.historyLength + 1, ...parts });
    const known = { instanceKey, incarnation, executionId: 1, lastTurn };
    return only(
      await this.provider.ackTurns([{ ...known, ...fences, lockTokens, turn }]),
      'result',
    );
  }

  claimWork(params: Partial<FetchWorkItemsParams> = {}): Promise<readonly WorkItem[]> {
    return this.provider.fetchWorkItems({ max: 1_000, lockMs, waitMs: 0, ...params });
  }

  /** Claims, and expects exactly one work item. */
  async claimWorkOne(params: Partial<FetchWorkItemsParams> = {}): Promise<WorkItem> {
    return only(await this.claimWork(params), 'claimed work item');
  }

  /** Claims all work items, in the order of their operations. */
  async claimWorkInOrder(): Promise<readonly WorkItem[]> {
    return (await this.claimWork()).toSorted((x, y) => x.operation - y.operation);
  }

  /** Acks a work item. Default outcome: completed. */
  async ackWork(
    lockToken: string,
    outcome: WorkOutcome = { kind: 'completed', payload: '"done"' },
  ): Promise<CommitResult> {
    return only(await this.provider.ackWorkItems([{ lockToken, outcome }]), 'result');
  }

  /** Raises external events that carry their labels. */
  async raise(instanceId: string, ...labels: readonly string[]): Promise<void> {
    const messages = labels.map((text) => ({ instanceId, message: raised(text) }));
    const results = await this.provider.enqueueMessages(messages);
    assert.deepEqual(
      results,
      labels.map(() => 'enqueued'),
    );
  }

  /** Cancels an instance. */
  async cancel(instanceId: string, parts: Partial<CancelInstance> = {}): Promise<StopResult> {
    const request = { instanceId, reason: 'not wanted', actor: null, cleanupMs, ...parts };
    return only(await this.provider.requestCancel([request]), 'result');
  }

  /** Terminates an instance. */
  async terminate(instanceId: string, parts: Partial<TerminateInstance> = {}): Promise<StopResult> {
    const request = { instanceId, reason: 'ended', actor: null, tree: false, ...parts };
    return only(await this.provider.terminate([request]), 'result');
  }

  /** Renews the lease of a work item. */
  async renewWork(lockToken: string): Promise<RenewResult> {
    return only(await this.provider.renewWorkItemLocks([{ lockToken }], lockMs), 'result');
  }

  async record(instanceId: string): Promise<InstanceRecord> {
    const [record] = await this.provider.getInstances([instanceId]);
    assert.ok(record, `${instanceId} should exist`);
    return record;
  }

  history(instanceId: string, executionId = 1): Promise<readonly StoredEvent[]> {
    const page = { after: 0, limit: 10_000 };
    return this.provider.readInstanceHistory({ instanceId, executionId, ...page });
  }

  /** The labels of an execution's history. */
  async historyLabels(instanceId: string, executionId = 1): Promise<readonly unknown[]> {
    const events = await this.history(instanceId, executionId);
    return events.map(({ payload }) => JSON.parse(payload ?? 'null') as unknown);
  }

  /** The executions of an instance, oldest first. */
  executions(instanceId: string): Promise<readonly ExecutionRecord[]> {
    return this.provider.listExecutions({ instanceId, after: 0, limit: 10_000 });
  }

  async snapshotOf(record: InstanceRecord): Promise<InstanceSnapshot> {
    const executions = await this.executions(record.instanceId);
    const histories = await Promise.all(
      executions.map(({ executionId }) => this.history(record.instanceId, executionId)),
    );
    return { record, executions, histories };
  }

  /** Reads all data of all instances. */
  async snapshot(): Promise<readonly InstanceSnapshot[]> {
    const { instances: records } = await this.provider.listInstances({ filter: {}, limit: 1_000 });
    return Promise.all(records.map((record) => this.snapshotOf(record)));
  }

  /** Runs an action and expects that no readable data has changed. */
  async expectNoChange<Result>(action: () => Promise<Result>): Promise<Result> {
    const before = await this.snapshot();
    const result = await action();
    assert.deepEqual(await this.snapshot(), before, 'expected no change');
    return result;
  }

  /** Expects that no instance and no work item can be claimed now. */
  async expectIdle(): Promise<void> {
    const items = (await this.claim()).map((item) => `${item.instanceId}: ${labels(item).join()}`);
    const work = (await this.claimWork()).map((item) => `${item.instanceId} ${item.operation}`);
    assert.deepEqual({ items, work }, { items: [], work: [] }, 'expected nothing claimable');
  }
}

/** Returns the messages of a claim in order: their kind, execution, operation and data. */
export function contents(item: OrchestrationItem): readonly Readonly<Record<string, unknown>>[] {
  return item.messages.map(({ kind, executionId, operation, data }) => ({
    kind,
    ...(executionId !== null && { executionId }),
    ...(operation !== null && { operation }),
    ...(JSON.parse(data) as Record<string, unknown>),
  }));
}

/** Returns the labels of a claim's messages, in order. */
export function labels(item: OrchestrationItem): readonly string[] {
  return item.messages.map(label);
}
