import type { StoredMessage } from '../../model/message.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { Payload } from '../../model/values/payload.ts';

/** A reply to an update, written by the turn that decided it. */
export interface UpdateReply {
  readonly key: string;
  /** `rejected`: it was not accepted, and no event records it. */
  readonly outcome: 'completed' | 'failed' | 'rejected';
  readonly payload: Payload | null;
  /** The failure as JSON text; `null` if it completed. */
  readonly failure: string | null;
}

/** An awakeable that a turn created. The store never has its token. */
export interface NewAwakeable {
  readonly operation: number;
  readonly tokenHash: string;
}

/** The changes of a turn to awakeables. */
export interface AwakeableChanges {
  readonly created: readonly NewAwakeable[];
  /** Operations whose awakeables can no longer be answered. */
  readonly withdrawn: readonly number[];
  /** Whether the execution continues as new: its open awakeables, and those of earlier executions, are deleted. */
  readonly closes: boolean;
}

/** A request for an update. */
export interface NewUpdate {
  readonly instanceId: string;
  /** Identifies the update within its instance. */
  readonly key: string;
  readonly name: string;
  readonly inputHash: string;
  /** The message to the instance. */
  readonly message: StoredMessage;
}

/** The state of an update. */
export type UpdateState =
  | { readonly kind: 'pending' }
  | ({ readonly kind: 'replied' } & Omit<UpdateReply, 'key'>)
  /** Its instance, or the execution that accepted it, ended without a reply. */
  | { readonly kind: 'interrupted'; readonly status: InstanceStatus }
  /** The instance does not exist, or has no such update. */
  | { readonly kind: 'missing' };

/** The result of a request. */
export type RequestUpdateResult =
  | UpdateState
  /** The instance has ended. Nothing was written. */
  | { readonly kind: 'over'; readonly status: InstanceStatus }
  /** The key belongs to an update with another name or input. */
  | { readonly kind: 'reused' }
  /** Too many updates of the instance have no reply. */
  | { readonly kind: 'full' };

/** An answer to an awakeable. */
export interface AwakeableAnswer {
  readonly tokenHash: string;
  /** Identifies the call, so that a repeat of it is no second answer. */
  readonly answerKey: string;
  /** The message; the store adds the execution and the operation. */
  readonly message: Pick<StoredMessage, 'kind' | 'data' | 'payload'>;
}

/** `answered`: by this call, or by an earlier copy of it. `already`: by another call. `missing`: no open awakeable. */
export type AnswerResult = 'answered' | 'already' | 'missing';

/** Updates and awakeables: requests to running instances. */
export interface UpdateStore {
  /**
   * Requests updates, each in one transaction with its message.
   *
   * A provider must, per update:
   * - store it and enqueue the message, or return the state of the update that has the key
   *   (update/is-requested-once, update/a-key-belongs-to-its-instance)
   * - return `reused`, changing nothing, for a key with another name or input hash (update/a-key-is-not-reused)
   * - return `missing` or `over`, changing nothing, for an instance that takes no turns, but still the state of an update
   *   that has the key (update/needs-a-live-instance, update/a-reply-outlives-its-instance)
   * - return `full` if 2,000 updates of the instance have no reply (update/is-bounded)
   * - keep the last 10,000 replies of an instance, until it is deleted (update/keeps-the-last-replies,
   *   update/is-deleted-with-its-instance)
   */
  requestUpdates(requests: readonly NewUpdate[]): Promise<readonly RequestUpdateResult[]>;

  /**
   * Reads the states of updates.
   *
   * A provider must:
   * - return the reply that a turn wrote, once it is committed; the first reply is final (update/a-turn-replies,
   *   update/the-first-reply-is-final, update/a-refused-turn-does-not-reply)
   * - return `interrupted` once the instance takes no more turns, also after it was retried or replaced
   *   (update/an-end-interrupts, update/a-retry-does-not-revive)
   * - notify by `statusSet` of each reply, also in other processes (update/a-reply-sends-a-hint)
   */
  readUpdates(
    updates: readonly { readonly instanceId: string; readonly key: string }[],
  ): Promise<readonly UpdateState[]>;

  /**
   * Answers awakeables, each in one transaction with its message.
   *
   * A provider must, per answer:
   * - enqueue the message for the operation of an open awakeable, once (awakeable/is-answered-once,
   *   awakeable/a-repeat-is-no-second-answer)
   * - return `missing`, changing nothing, for an unknown hash, for a withdrawn awakeable, for one of an earlier
   *   execution, and after the end of the instance (awakeable/an-unknown-token-is-missing,
   *   awakeable/a-withdrawn-one-is-missing, awakeable/continue-as-new-closes, awakeable/an-end-closes)
   * - let a retry keep or reopen the awakeables that its turn creates, and a fork none of its original
   *   (awakeable/a-retry-keeps-it, awakeable/a-fork-has-none)
   */
  answerAwakeables(answers: readonly AwakeableAnswer[]): Promise<readonly AnswerResult[]>;
}
