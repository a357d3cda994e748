import type { StoredMessage } from '../../model/message.ts';
import type { StoreTransaction } from '../../model/store-transaction.ts';
import type { CancellationStore } from './cancellation.ts';
import type { InstanceStore } from './instances.ts';
import type { OrchestrationAck } from './orchestration-queue.ts';
import type { TaskStore } from './tasks.ts';
import type { CommitResult } from './turn.ts';
import type { TurnAck, WorkItemAck } from './work-queue.ts';

/** A connection of the application with an open transaction: a client of `pg`, or a compatible object. */
export interface TransactionConnection {
  query(statement: {
    readonly text: string;
    readonly values: unknown[];
  }): Promise<{ readonly rows: object[]; readonly rowCount: number | null }>;
}

/** Writes that a store can make within a transaction of the application. */
export type TransactionalWrites = Pick<InstanceStore, 'createInstances' | 'enqueueMessages'> &
  Pick<TaskStore, 'createTasks'> &
  Pick<CancellationStore, 'requestCancel'>;

/** The instance of the ack is required: a wrapper that encodes payloads chooses the key from it. A store ignores it. */
export type WithInstance<Ack> = Ack & { readonly instanceId: string };

/** The ack of one of several work items. */
interface TransactionItemAck {
  readonly ack: WithInstance<WorkItemAck>;
  /** Refuse the ack with the `CanceledError` if the item was asked to stop. */
  readonly unlessCanceled?: boolean;
}

/** The ack that commits together with the writes of the application. */
export type TransactionAck =
  | {
      readonly kind: 'workItem';
      readonly ack: WithInstance<WorkItemAck>;
      /** Refuse the ack with the `CanceledError` if the item was asked to stop. */
      readonly unlessCanceled?: boolean;
    }
  /** Several work items: all of them, or none. The result has `items`. */
  | { readonly kind: 'workItems'; readonly acks: readonly TransactionItemAck[] }
  | { readonly kind: 'turn'; readonly ack: WithInstance<TurnAck> }
  | { readonly kind: 'orchestration'; readonly ack: WithInstance<OrchestrationAck> }
  /** A message to an instance that the caller holds. The claim is kept. */
  | {
      readonly kind: 'message';
      readonly ack: {
        readonly instanceId: string;
        readonly lockToken: string;
        readonly message: StoredMessage;
      };
    };

/** Writes of the application, and the ack that commits with them. */
export interface TransactRequest {
  /**
   * Writes to the tables of the application and returns the ack. Its error rolls back. Runs again, with a new `tx`, if the
   * store has rolled the transaction back because of a conflict or a lost connection.
   */
  readonly write: (tx: StoreTransaction) => Promise<TransactionAck>;
  /** How long `write` may take, in milliseconds. Absent: the default of the store. */
  readonly timeoutMs?: number;
  /** Aborted while `write` runs: rolls back and rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Commits acks within transactions that contain writes of the application. */
export interface TransactionStore {
  /**
   * Runs the writes of the application and the ack in one transaction.
   *
   * A provider must:
   * - commit both or none of them (transact/commits-the-writes-and-the-ack, transact/commits-a-turn,
   *   transact/commits-a-turn-of-a-claim, transact/commits-a-message-to-a-held-instance)
   * - commit the acks of several work items together, or refuse all of them if one is refused, with the result of each
   *   (transact/commits-several-acks, transact/one-refused-ack-rolls-back-all)
   * - return a refused ack with nothing changed, also in the tables of the application
   *   (transact/a-lost-lease-rolls-back, transact/an-expired-lease-rolls-back, transact/a-refused-turn-rolls-back,
   *   transact/a-message-needs-a-held-instance)
   * - with `unlessCanceled`, refuse the ack of an item that was asked to stop
   *   (transact/a-canceled-item-rolls-back)
   * - roll back and rethrow if `write` throws (transact/an-error-rolls-back)
   * - roll back with `TRANSACTION_TIMEOUT` after `timeoutMs`, and with the reason of `signal`
   *   (transact/a-slow-write-rolls-back, transact/an-aborted-write-rolls-back)
   * - reject `tx` with `TRANSACTION_CLOSED` once `write` has settled (transact/tx-ends-with-its-write)
   * - reject statements that would end the transaction with `TRANSACTION_STATEMENT`, without running them
   *   (transact/refuses-transaction-control)
   * - hide the writes until the commit, and let other writes of the store proceed after it
   *   (transact/other-writes-follow)
   * - notify waiting fetches after the commit (transact/wakes-waiting-fetches)
   */
  transact(request: TransactRequest): Promise<CommitResult>;
}
