import type { StoredEvent } from '../model/event.ts';
import type { StoredMessage } from '../model/message.ts';
import type { Payload } from '../model/payload.ts';
import type { ExecutionStatus, InstanceStatus } from '../model/status.ts';
import type { ClaimedAtInsert, Turn } from './turn.ts';

export interface NewInstance {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly version: string | null;
  /** Hash of the canonical input: the same id with the same name and hash is the same start. */
  readonly inputHash: string;
  readonly start: StoredMessage;
  /** The first turn, already run: its events stand in for the start message. Fast path 3. */
  readonly firstTurn?: Turn;
}

/** `exists`: this very start was made before. `conflict`: the id belongs to another name or input. */
export type CreateResult =
  | {
      readonly kind: 'created';
      readonly instanceKey: number;
      readonly claimed: readonly ClaimedAtInsert[];
    }
  | { readonly kind: 'exists' }
  | { readonly kind: 'conflict'; readonly name: string }
  /** The store could not take this one; nothing of it was kept, and its neighbours are not affected. */
  | { readonly kind: 'refused'; readonly error: Error };

export interface NewMessage {
  readonly instanceId: string;
  readonly message: StoredMessage;
  /** Refuse when this many messages of the kind already wait. */
  readonly maxPending?: number;
}

export type EnqueueResult = 'enqueued' | 'missing' | 'over' | 'full';

/** What is known of an instance, read from its row and never from its history. */
export interface InstanceRecord {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly name: string;
  readonly version: string | null;
  readonly status: InstanceStatus;
  readonly executionId: number;
  readonly parentInstanceId: string | null;
  readonly output: Payload | null;
  /** A `Failure` as JSON text. */
  readonly failure: string | null;
  readonly customStatus: Payload | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Why its turns are held back, and since when. */
  readonly blocked: { readonly reason: string; readonly at: number } | null;
}

export interface ExecutionRecord {
  readonly executionId: number;
  readonly status: ExecutionStatus;
  readonly version: string | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly historyLength: number;
}

/** Conditions that must all hold. Absent: any. */
export interface InstanceFilter {
  readonly status?: readonly InstanceStatus[];
  readonly name?: string;
  readonly idPrefix?: string;
  readonly parentInstanceId?: string;
  readonly createdFrom?: number;
  readonly createdBefore?: number;
  readonly blocked?: boolean;
}

export interface ListInstancesParams {
  readonly filter: InstanceFilter;
  readonly limit: number;
  /** Only instances older than this key: where the last page ended. */
  readonly beforeKey?: number;
}

export interface InstanceStore {
  /**
   * Creates instances with their start messages (or their first turns).
   *
   * A provider must, per instance:
   * - insert the row and the message together
   * - answer `exists` for the same name and input hash, `conflict` for others, also when the other is over
   * - with a first turn, commit what `ackOrchestrationItems` would commit, and enqueue no start message
   * - keep one bad instance from spoiling its neighbours
   */
  createInstances(instances: readonly NewInstance[]): Promise<readonly CreateResult[]>;

  /**
   * Enqueues messages to instances.
   *
   * A provider must, per message:
   * - answer `missing` or `over`, keeping nothing, when there is nobody to read it
   * - answer `full` when `maxPending` messages of the kind wait already
   * - keep the order of messages to one instance
   */
  enqueueMessages(messages: readonly NewMessage[]): Promise<readonly EnqueueResult[]>;

  /** Reads instances by id, in the order asked; `undefined` for a missing one. */
  getInstances(instanceIds: readonly string[]): Promise<readonly (InstanceRecord | undefined)[]>;

  /** Lists instances, newest first, one page at a time. */
  listInstances(params: ListInstancesParams): Promise<readonly InstanceRecord[]>;

  /** Lists the executions of an instance, oldest first; empty for a missing one. */
  listExecutions(instanceId: string): Promise<readonly ExecutionRecord[]>;

  /** Reads a history by instance id, for inspection. */
  readInstanceHistory(params: {
    readonly instanceId: string;
    readonly executionId: number;
    readonly after: number;
    readonly limit: number;
  }): Promise<readonly StoredEvent[]>;
}
