import type { Payload } from '../../model/values/payload.ts';
import type { StoreTransaction } from '../../model/store-transaction.ts';
import type { TransactionOptions } from '../../orchestration/activity-context.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { TransactionAck } from '../../providers/contract/transactional.ts';
import type { BatchTransactionWork } from '../../tasks/batch.ts';
import {
  AttemptTransaction,
  encodeResult,
  nested,
  outsideHandler,
  readTransactionCall,
  StoreFailure,
} from '../activities/attempt-transaction.ts';
import type { ResolvedOptions } from '../options.ts';
import { allSettled, invalidResult } from './batch-errors.ts';
import type { BatchMember } from './batch-member.ts';

export interface BatchTransactionParams {
  readonly task: string;
  readonly options: Pick<ResolvedOptions, 'name' | 'payloadLimitBytes'>;
  readonly store: Pick<Provider, 'name' | 'transact'>;
  /** The runs that the handler got. */
  readonly members: () => readonly BatchMember[];
  /** Whether the handler runs. */
  readonly isRunning: () => boolean;
  /** Throws if the handler should stop. */
  readonly throwIfCanceled: () => void;
}

/**
 * Runs `ctx.transaction` of a batch handler: commits the writes of the closure together with the results of all runs that
 * are not settled. A run that was canceled or lost meanwhile rolls back, and the closure runs again with the others.
 */
export class BatchTransaction {
  readonly #params: BatchTransactionParams;
  #isOpen = false;

  constructor(params: BatchTransactionParams) {
    this.#params = params;
  }

  async run(
    work: BatchTransactionWork<unknown, unknown>,
    options?: TransactionOptions,
  ): Promise<void> {
    const { task, isRunning, throwIfCanceled } = this.#params;
    const label = `task ${JSON.stringify(task)}`;
    const timeoutMs = readTransactionCall(label, work, options);
    if (this.#isOpen) throw nested(label);
    if (!isRunning()) throw outsideHandler(label);
    this.#isOpen = true;
    try {
      for (;;) {
        const members = this.#unsettled();
        if (members.length === 0) {
          throwIfCanceled();
          throw allSettled(task);
        }
        const runs = members.map(({ attempt }) => attempt.batchRun);
        if (await this.#attempt(label, members, (tx) => work(tx, runs), timeoutMs)) return;
      }
    } finally {
      this.#isOpen = false;
    }
  }

  #unsettled(): readonly BatchMember[] {
    return this.#params
      .members()
      .filter(({ isSettled, attempt }) => !isSettled && attempt.mayCommit);
  }

  /** Returns whether it has committed. Otherwise at least one of the runs has stopped. */
  async #attempt(
    label: string,
    members: readonly BatchMember[],
    work: (tx: StoreTransaction) => unknown,
    timeoutMs: number | undefined,
  ): Promise<boolean> {
    const transaction = new AttemptTransaction<readonly (Payload | null)[]>({
      label,
      store: this.#params.store,
      assertMayComplete: () => {
        for (const { attempt } of members) attempt.assertMayCommit();
      },
      toAck: (value) => this.#toAck(members, value),
    });
    for (const { attempt } of members) attempt.openTransaction(transaction);
    try {
      for (const { attempt } of members) await attempt.drain();
      const { value, written, commit } = await transaction.run(work, timeoutMs);
      transaction.settle();
      if (!commit.ok) {
        for (const [index, { attempt }] of members.entries()) {
          const item = commit.items?.[index];
          if (item?.ok === false) attempt.refuse(item.error);
        }
        if (members.every(({ attempt }) => attempt.mayCommit)) throw commit.error;
        return false;
      }
      for (const [index, member] of members.entries()) {
        member.committed((value as readonly unknown[])[index]);
        member.attempt.commit(written[index] ?? null, commit.items?.[index] ?? commit);
      }
      return true;
    } catch (error) {
      if (error instanceof StoreFailure) {
        // The hand-back is fenced: if the transaction did commit, it changes nothing.
        for (const { attempt } of members) attempt.abandon(error.unencoded);
        throw error.cause;
      }
      if (transaction.isAborted && members.some(({ attempt }) => !attempt.mayCommit)) return false;
      throw error;
    } finally {
      transaction.settle();
      for (const { attempt } of members) attempt.closeTransaction();
    }
  }

  #toAck(
    members: readonly BatchMember[],
    results: unknown,
  ): { readonly written: readonly (Payload | null)[]; readonly ack: TransactionAck } {
    const { task, options } = this.#params;
    if (!Array.isArray(results) || results.length !== members.length)
      throw invalidResult(task, results, members.length);
    const label = `task ${JSON.stringify(task)}`;
    const written = results.map((result) => encodeResult(result, label, options));
    const acks = members.map(({ attempt }, index) => {
      const { instanceId, lockToken, nowMs: startedAt } = attempt.item;
      const ran = { worker: options.name, startedAt };
      const outcome = { kind: 'completed', payload: written[index] ?? null, ran } as const;
      return {
        ack: { instanceId, lockToken, outcome },
        unlessCanceled: attempt.isRefusedByCancel,
      };
    });
    return { written, ack: { kind: 'workItems', acks } };
  }
}
