import {
  newBulkCursor,
  readBulkCursor,
  type BulkAction,
  type BulkBackend,
  type BulkCall,
  type BulkRefusal,
  type BulkResult,
} from '../../management/bulk-call.ts';
import {
  checkCallback,
  readFlag,
  readPruneConditions,
  readSignal,
  type PruneConditions,
} from '../../management/management-options.ts';
import { readActor, readReason } from '../../model/audit-options.ts';
import type { Clock } from '../../model/clock.ts';
import type { EventToken } from '../../model/definition.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { invalidOption, readFields } from '../../model/option-fields.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import { readListFilter, type ListFilter } from '../reading/instance-list.ts';
import { readEventCall } from '../starting/start-request.ts';
import { readRetryPoint } from './rerun-request.ts';

/** The progress of a bulk operation. The numbers include earlier calls that its `cursor` continued. */
export interface BulkProgress {
  readonly matched: number;
  readonly changed: number;
  readonly refused: number;
  /** Continues the operation from here, for example after a crash. Absent if it is done. */
  readonly cursor?: string;
}

/** Options of a bulk operation. */
export interface BulkOptions {
  /** Confirms a filter without conditions, which matches all instances. Default: false. */
  readonly all?: boolean | undefined;
  /** Only counts the matching instances, up to 10,000. Default: false. */
  readonly dryRun?: boolean | undefined;
  /** Maximum instances to visit in this call. Default: no limit. */
  readonly limit?: number | undefined;
  /** The `cursor` of an earlier result or progress. Pass the same filter and options. */
  readonly cursor?: string | undefined;
  /** Called several times per second, with the totals so far. */
  readonly onProgress?: ((progress: BulkProgress) => void) | undefined;
  /** Ends the operation after its current transactions. The result has a `cursor`. */
  readonly signal?: AbortSignal | undefined;
  /** Why. Recorded in the audit; of a cancel, termination or pause also in the instances. */
  readonly reason?: string | undefined;
  /** The actor in the audit. */
  readonly actor?: string | undefined;
}

/** Options of `bulk.cancel`. */
export interface BulkCancelOptions extends BulkOptions {
  /** Time that the code has to clean up. Default 5 minutes. */
  readonly cleanupTimeout?: Duration | undefined;
}

/** Options of `bulk.terminate`. */
export interface BulkTerminateOptions extends BulkOptions {
  /** Also terminate all descendants. Default: false, they are canceled. */
  readonly tree?: boolean | undefined;
}

/** Options of `bulk.retry`. */
export interface BulkRetryOptions extends BulkOptions {
  /** `failure`: keep the history up to the point of failure. `start`: run again from the beginning. */
  readonly from: 'failure' | 'start';
}

/** Options of `bulk.pause` and `bulk.resume`. */
export interface BulkPauseOptions extends BulkOptions {
  /** Also pause or resume all descendants. Default: false. */
  readonly tree?: boolean | undefined;
}

/** Options of `bulk.raiseEvent`. */
export interface BulkEventOptions extends BulkOptions {
  readonly payload?: unknown;
}

/** Options of `bulk.prune`. */
export interface BulkPruneByFilterOptions extends BulkOptions, PruneConditions {}

export interface BulkParams {
  readonly clock: Clock;
  readonly backend: BulkBackend;
  readonly payloadLimitBytes: number;
  /** Throws if the client must not be used. */
  readonly assertOpen: () => void;
}

const optionKeys = [
  'all',
  'dryRun',
  'limit',
  'cursor',
  'onProgress',
  'signal',
  'reason',
  'actor',
] as const;

const maxListed = 100;
const defaultCleanup: Duration = '5m';

/**
 * Actions on all instances that match a filter, from the newest to the oldest, in small transactions. Each instance is
 * visited once; instances created after the start are not visited. One audit record has the sum.
 */
export class Bulk {
  readonly #params: BulkParams;

  constructor(params: BulkParams) {
    this.#params = params;
  }

  /** Cancels the matching instances. Ended ones are refused; canceling ones stay as they are. */
  async cancel(filter: ListFilter, options?: BulkCancelOptions): Promise<BulkResult> {
    const given = readFields(options, 'bulk.cancel()', [...optionKeys, 'cleanupTimeout'] as const);
    const cleanupMs = toMs((given.cleanupTimeout ?? defaultCleanup) as Duration, 'cleanupTimeout');
    return this.#run({ kind: 'cancel', cleanupMs }, filter, given);
  }

  /** Terminates the matching instances, without running their code. Ended ones are refused. */
  async terminate(filter: ListFilter, options?: BulkTerminateOptions): Promise<BulkResult> {
    const given = readFields(options, 'bulk.terminate()', [...optionKeys, 'tree'] as const);
    return this.#run({ kind: 'terminate', tree: readFlag('tree', given.tree) }, filter, given);
  }

  /**
   * Retries the matching roots, each once: also if the operation is resumed or a response is lost. Live, completed and
   * skipped ones are refused; children do not match.
   */
  async retry(filter: ListFilter, options: BulkRetryOptions): Promise<BulkResult> {
    const given = readFields(options, 'bulk.retry()', [...optionKeys, 'from'] as const);
    return this.#run({ kind: 'retry', from: readRetryPoint(given.from) }, filter, given);
  }

  /** Pauses the matching instances. Ended and canceling ones are refused; paused ones stay as they are. */
  async pause(filter: ListFilter, options?: BulkPauseOptions): Promise<BulkResult> {
    const given = readFields(options, 'bulk.pause()', [...optionKeys, 'tree'] as const);
    return this.#run({ kind: 'pause', tree: readFlag('tree', given.tree) }, filter, given);
  }

  /** Resumes the matching instances. Instances that are not paused stay as they are. */
  async resume(filter: ListFilter, options?: BulkPauseOptions): Promise<BulkResult> {
    const given = readFields(options, 'bulk.resume()', [...optionKeys, 'tree'] as const);
    return this.#run({ kind: 'resume', tree: readFlag('tree', given.tree) }, filter, given);
  }

  /**
   * Sends an event to the matching instances, to each once: also if the operation is resumed or a response is lost.
   * Ended instances and those with a full event buffer are refused.
   */
  async raiseEvent(
    filter: ListFilter,
    event: EventToken | string,
    options?: BulkEventOptions,
  ): Promise<BulkResult> {
    const given = readFields(options, 'bulk.raiseEvent()', [...optionKeys, 'payload'] as const);
    const call = readEventCall(event, given.payload, undefined, this.#params.payloadLimitBytes);
    return this.#run({ kind: 'raiseEvent', ...call }, filter, given);
  }

  /** Deletes the matching roots with their descendants. Trees that have not ended are refused; children do not match. */
  async delete(filter: ListFilter, options?: BulkOptions): Promise<BulkResult> {
    const given = readFields(options, 'bulk.delete()', optionKeys);
    return this.#run({ kind: 'delete' }, filter, given);
  }

  /** Deletes finished executions of the matching instances; the current execution stays. */
  async prune(filter: ListFilter, options?: BulkPruneByFilterOptions): Promise<BulkResult> {
    const keys = [...optionKeys, 'keepLast', 'completedBefore'] as const;
    const given = readFields(options, 'bulk.prune()', keys);
    return this.#run({ kind: 'prune', conditions: readPruneConditions(given) }, filter, given);
  }

  async #run(
    action: BulkAction,
    filter: unknown,
    given: Readonly<Partial<Record<(typeof optionKeys)[number], unknown>>>,
  ): Promise<BulkResult> {
    const { assertOpen, backend } = this.#params;
    assertOpen();
    const call = readBulkCall(action, filter, given, this.#params.clock.now());
    const signal = readSignal(given.signal);
    checkCallback('onProgress', given.onProgress);
    const onProgress = given.onProgress as BulkOptions['onProgress'];
    const first = readBulkCursor(call.cursor);
    const listed: BulkRefusal[] = [];
    let { cursor } = call;
    const isAborted = (): boolean => signal?.aborted === true;
    while (!isAborted()) {
      const visited = readBulkCursor(cursor).matched - first.matched;
      const part = await backend.run({ ...call, cursor, limit: call.limit - visited }, signal);
      listed.push(...part.refused.slice(0, maxListed - listed.length));
      const refused = part.refused.length + part.refusedMore;
      const result = { ...part, refused: listed, refusedMore: refused - listed.length };
      const isEnough = part.matched - first.matched >= call.limit;
      const { matched, changed } = part;
      onProgress?.({
        matched,
        changed,
        refused,
        ...(part.cursor !== undefined && { cursor: part.cursor }),
      });
      if (part.done || part.cursor === undefined || isEnough || isAborted()) {
        return result;
      }
      cursor = part.cursor;
      assertOpen();
    }
    // Aborted before the first part.
    const { matched, changed, refused } = first;
    return { matched, changed, refused: [], refusedMore: refused, done: false, cursor };
  }
}

/** Checks the filter and the options that all bulk operations share. */
export function readBulkCall(
  action: BulkAction,
  filter: unknown,
  given: Readonly<
    Partial<Record<Exclude<(typeof optionKeys)[number], 'onProgress' | 'signal'>, unknown>>
  >,
  nowMs: number,
): BulkCall {
  const cursor = given.cursor ?? newBulkCursor(nowMs);
  const { startedAt } = readBulkCursor(cursor);
  const conditions = readListFilter(filter, `the filter of bulk.${action.kind}()`, startedAt);
  const isConfirmed = readFlag('all', given.all);
  if (Object.keys(conditions).length === 0 && !isConfirmed) {
    throw new PerdureError(
      'INVALID_OPTION',
      'The filter has no condition, so it would select all instances. Pass a condition, or `all: true`.',
    );
  }
  return {
    action,
    filter: conditions,
    reason: readReason(given.reason),
    actor: readActor(given.actor),
    dryRun: readFlag('dryRun', given.dryRun),
    limit: readVisitLimit(given.limit),
    cursor: cursor as string,
  };
}

function readVisitLimit(limit: unknown): number {
  if (limit === undefined) return Number.MAX_SAFE_INTEGER;
  if (Number.isSafeInteger(limit) && (limit as number) >= 1) return limit as number;
  throw invalidOption('limit', limit, 'an integer of 1 or more');
}
