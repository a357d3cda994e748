import {
  type CanceledError,
  isPerdureError,
  PerdureError,
  ProviderError,
} from '../../model/failures/errors.ts';
import type { StoreTransaction } from '../../model/store-transaction.ts';
import { toMs } from '../../model/values/duration.ts';
import { encodePayload, type Payload } from '../../model/values/payload.ts';
import type { TransactionOptions } from '../../orchestration/activity-context.ts';
import { checkOptions } from '../../orchestration/definition-checks.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { TransactionAck } from '../../providers/contract/transactional.ts';
import type { CommitResult } from '../../providers/contract/turn.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import { reportSafely } from '../maintenance/reports.ts';
import type { ResolvedOptions } from '../options.ts';

/** A transaction of an attempt or of a batch, with its ack. */
export interface AttemptTransactionParams<Written> {
  /** Used in messages, for example `activity "x"`. */
  readonly label: string;
  readonly store: Pick<Provider, 'name' | 'transact'>;
  /** Encodes the value of the closure. Its error rolls back. */
  readonly toAck: (value: unknown) => { readonly written: Written; readonly ack: TransactionAck };
  /** Throws if the attempt was stopped while the closure ran. */
  readonly assertMayComplete: () => void;
}

/** The outcome of a transaction. */
interface Transacted<Value, Written> {
  readonly value: Value;
  /** The encoded value. */
  readonly written: Written;
  readonly commit: CommitResult;
}

/** An attempt whose outcome a transaction commits. */
export interface CommittingAttempt {
  readonly item: WorkItem;
  /** Whether a cancel that the worker does not know yet refuses its ack. */
  readonly isRefusedByCancel: boolean;
  /** Throws if the run can no longer complete. */
  assertMayCommit(): void;
  /** Until `closeTransaction`, a cancel or a timeout rolls the transaction back, and a commit is waited for. */
  openTransaction(transaction: AttemptTransaction<unknown>): void;
  closeTransaction(): void;
  /** Waits until all emitted chunks are stored: they need the claim, which ends with the commit. */
  drain(): Promise<unknown>;
  /** The result was committed with the transaction. */
  commit(payload: Payload | null, commit: CommitResult): void;
  /** The ack was refused: nothing was written. Returns the error for the handler. */
  refuse(error: Error): Error;
  /** Hands the run back. `unencoded`: the codec could not encode its result, so it waits and has an explanation. */
  abandon(unencoded?: PerdureError): void;
}

/**
 * The store could not run the transaction, or does not know its outcome, or the codec could not encode the result. The
 * closure is not at fault.
 */
export class StoreFailure extends Error {
  /** The error of the codec. The transaction was rolled back. */
  readonly unencoded: PerdureError | undefined;

  constructor(cause: PerdureError) {
    super('store failure', { cause });
    this.unencoded = isPerdureError(cause, 'CODEC_FAILED') ? cause : undefined;
  }
}

/** Whether an error that the closure of a transaction did not throw is a failure of the store or of the codec. */
function isOfStore(error: unknown): error is PerdureError {
  return (
    (error instanceof ProviderError && error.retryable) || isPerdureError(error, 'CODEC_FAILED')
  );
}

/** Runs a closure and commits its writes together with its value, as the outcome of work items. */
export class AttemptTransaction<Written> {
  readonly #params: AttemptTransactionParams<Written>;
  readonly #controller = new AbortController();
  /** Calls that wait for the outcome of the commit. Set while it is unknown. */
  #waiting: (() => void)[] | undefined;

  constructor(params: AttemptTransactionParams<Written>) {
    this.#params = params;
  }

  get isAborted(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Rolls back, unless the ack has begun. */
  abort(reason: CanceledError): void {
    this.#controller.abort(reason);
  }

  /** Whether the ack has begun and its outcome is unknown. Then `call` runs once it is known. */
  isCommitting(call: () => void): boolean {
    this.#waiting?.push(call);
    return this.#waiting !== undefined;
  }

  /** The outcome is known: runs the calls that have waited for it. */
  settle(): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    for (const call of waiting) call();
  }

  async run<Value>(
    work: (tx: StoreTransaction) => Value | Promise<Value>,
    timeoutMs: number | undefined,
  ): Promise<Transacted<Value, Written>> {
    const { label, store, toAck, assertMayComplete } = this.#params;
    if (store.transact === undefined) throw unsupported(label, store.name);
    let result: { readonly value: Value; readonly written: Written } | undefined;
    let thrown: { readonly error: unknown } | undefined;
    try {
      const commit = await store.transact({
        ...(timeoutMs !== undefined && { timeoutMs }),
        signal: this.#controller.signal,
        write: async (tx) => {
          // It may run again after a conflict.
          this.settle();
          thrown = undefined;
          try {
            const value = await work(tx);
            const { written, ack } = toAck(value);
            result = { value, written };
            assertMayComplete();
            this.#waiting = [];
            return ack;
          } catch (error) {
            thrown = { error };
            throw error;
          }
        },
      });
      if (result === undefined) throw new Error('The store did not run the closure.');
      return { ...result, commit };
    } catch (error) {
      throw thrown === undefined && isOfStore(error) ? new StoreFailure(error) : error;
    }
  }
}

/** Runs a closure, and commits its writes together with its value as the outcome of the attempt. */
export async function transactAttempt<Value>(
  attempt: CommittingAttempt,
  params: TransactParams & { readonly timeoutMs: number | undefined },
  work: (tx: StoreTransaction) => Value | Promise<Value>,
): Promise<Value> {
  const { label, store, timeoutMs } = params;
  const transaction = new AttemptTransaction({
    label,
    store,
    toAck: (value) => completedAck(attempt, params, value),
    assertMayComplete: () => attempt.assertMayCommit(),
  });
  attempt.openTransaction(transaction);
  try {
    await attempt.drain();
    const { value, written, commit } = await transaction.run(work, timeoutMs);
    if (!commit.ok) throw attempt.refuse(commit.error);
    attempt.commit(written, commit);
    return value;
  } catch (error) {
    if (!(error instanceof StoreFailure)) throw error;
    // The hand-back is fenced: if the transaction did commit, it changes nothing.
    attempt.abandon(error.unencoded);
    throw error.cause;
  } finally {
    transaction.settle();
    attempt.closeTransaction();
  }
}

interface TransactParams {
  readonly label: string;
  readonly store: Pick<Provider, 'name' | 'transact'>;
  readonly options: Pick<ResolvedOptions, 'name' | 'payloadLimitBytes'>;
}

/** The ack that completes one item with a value. */
function completedAck(
  { item, isRefusedByCancel: unlessCanceled }: CommittingAttempt,
  { label, options }: TransactParams,
  value: unknown,
): { readonly written: Payload | null; readonly ack: TransactionAck } {
  const written = encodeResult(value, label, options);
  const { instanceId, lockToken, nowMs: startedAt } = item;
  const ran = { worker: options.name, startedAt };
  const outcome = { kind: 'completed', payload: written, ran } as const;
  const ack = { instanceId, lockToken, outcome };
  return { written, ack: { kind: 'workItem', ack, unlessCanceled } };
}

/** Encodes a result. One that cannot be stored fails the attempt for good, like a result of a handler. */
export function encodeResult(
  value: unknown,
  label: string,
  { payloadLimitBytes }: Pick<ResolvedOptions, 'payloadLimitBytes'>,
): Payload | null {
  try {
    return encodePayload(value, `The result of ${label}`, payloadLimitBytes);
  } catch (error) {
    throw Object.assign(error as Error, { nonRetryable: true });
  }
}

/** Checks the arguments of `ctx.transaction`. Returns the limit in milliseconds. */
export function readTransactionCall(
  what: string,
  work: unknown,
  options: TransactionOptions = {},
): number | undefined {
  if (typeof work !== 'function') {
    throw new PerdureError(
      'INVALID_INPUT',
      `ctx.transaction() of ${what} requires a function. Pass the closure that writes with \`tx\`.`,
    );
  }
  checkOptions(`ctx.transaction() of ${what}`, options, ['timeout']);
  const { timeout } = options;
  if (timeout === undefined) return undefined;
  const ms = toMs(timeout, 'timeout');
  if (ms >= 1) return ms;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid \`timeout\` of ${ms} ms in ctx.transaction() of ${what}: must be at least 1 ms.`,
  );
}

/** The store of the worker has no transactions for applications. */
export function unsupported(what: string, store: string): PerdureError {
  return new PerdureError(
    'TRANSACTION_UNSUPPORTED',
    `ctx.transaction() of ${what} is not supported by the store (${store}). Open a SQLite or PostgreSQL store.`,
  );
}

/** A closure called `ctx.transaction` again. */
export function nested(what: string): PerdureError {
  return new PerdureError(
    'TRANSACTION_NESTED',
    `ctx.transaction() of ${what} was called while another one is open. Use one transaction, or a savepoint inside of it.`,
  );
}

/** The handler of the attempt does not run. */
export function outsideHandler(what: string): PerdureError {
  return new PerdureError(
    'OUTSIDE_HANDLER',
    `ctx.transaction() of ${what} was called outside of its handler. Call it before the handler returns.`,
  );
}

/** Reports a handler that did not return the value of its transaction, which is already recorded. */
export function reportAfterCommit(
  { logger, payloadLimitBytes }: Pick<ResolvedOptions, 'logger' | 'payloadLimitBytes'>,
  { instanceId, name }: WorkItem,
  ended: { readonly payload: Payload | null; readonly value?: unknown; readonly error?: unknown },
): void {
  const fields = { instanceId, activity: name };
  const isSame = (): boolean =>
    encodePayload(ended.value, 'The result', payloadLimitBytes) === ended.payload;
  reportSafely(logger, () => {
    if ('error' in ended) {
      logger.warn(
        { ...fields, error: ended.error },
        'handler threw after its transaction had committed, its result is kept',
      );
    } else if (!isSame()) {
      logger.warn(fields, 'handler returned another value than its transaction, which is kept');
    }
  });
}
