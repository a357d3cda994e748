import { invalid } from '../model/option-fields.ts';
import type { InstanceStatus } from '../model/status.ts';
import type { Payload } from '../model/values/payload.ts';
import type { ErrorCode } from '../model/failures/errors.ts';
import type { InstanceConditions } from '../providers/contract/instances.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { CheckedPrune } from './management-options.ts';

/** An instance that a bulk operation did not change, and why. */
export interface BulkRefusal {
  readonly id: string;
  readonly code: ErrorCode;
  readonly reason: string;
}

/** The instances that a dry run found. */
export interface BulkPreview {
  readonly byStatus: Readonly<Partial<Record<InstanceStatus, number>>>;
  /** The ids of the newest instances, at most 20. */
  readonly sample: readonly string[];
  /** Whether more instances match than were counted: a dry run counts at most 10,000. */
  readonly capped: boolean;
}

/** The result of a bulk operation. The numbers include earlier calls that its `cursor` continued. */
export interface BulkResult {
  /** Instances that matched the filter when they were visited. */
  readonly matched: number;
  /** Instances that the operation changed, as in its audit record. */
  readonly changed: number;
  /** Instances that could not be changed: the first 100 of this call. */
  readonly refused: readonly BulkRefusal[];
  /** Refused instances that `refused` does not list. */
  readonly refusedMore: number;
  /** Whether all matching instances were visited. */
  readonly done: boolean;
  /** Pass it to continue the operation. Absent if it is done. */
  readonly cursor?: string;
  /** The instances that match. Only of a dry run. */
  readonly preview?: BulkPreview;
}

/** What a bulk operation does to each instance. */
export type BulkAction =
  | { readonly kind: 'cancel'; readonly cleanupMs: number }
  | { readonly kind: 'terminate'; readonly tree: boolean }
  | { readonly kind: 'retry'; readonly from: 'failure' | 'start' }
  | { readonly kind: 'pause'; readonly tree: boolean }
  | { readonly kind: 'resume'; readonly tree: boolean }
  | { readonly kind: 'raiseEvent'; readonly name: string; readonly payload: Payload | null }
  | { readonly kind: 'delete' }
  | { readonly kind: 'prune'; readonly conditions: CheckedPrune };

/** A bulk operation, checked and encoded. */
export interface BulkCall {
  readonly action: BulkAction;
  readonly filter: InstanceConditions;
  readonly reason: string | null;
  readonly actor: string | null;
  readonly dryRun: boolean;
  /** Maximum instances to visit. */
  readonly limit: number;
  /** Where to continue. The first call has a cursor, too: it identifies the operation if the call is repeated. */
  readonly cursor: string;
}

/** Runs a part of a bulk operation, which ends after some time or number of instances. */
export interface BulkBackend {
  /** Repeating a call whose response was lost changes no instance twice. */
  run(call: BulkCall, signal: AbortSignal | undefined): Promise<BulkResult>;
}

/** The position of a bulk operation. */
export interface BulkPosition {
  /** Identifies the operation. Random, so that no caller can guess the operation of another. */
  readonly token: string;
  /** When the operation started. A duration in its filter counts back from here, also in a later call. */
  readonly startedAt: number;
  /** Visit instances with smaller keys. Absent: from the newest on. */
  readonly beforeKey?: number;
  readonly matched: number;
  readonly changed: number;
  readonly refused: number;
}

/** Returns the cursor of a new operation. */
export function newBulkCursor(nowMs: number): string {
  const startedAt = Math.floor(nowMs);
  return toBulkCursor({ token: randomToken(), startedAt, matched: 0, changed: 0, refused: 0 });
}

/** Encodes a position as an opaque cursor. */
export function toBulkCursor(position: BulkPosition): string {
  const { token, startedAt, beforeKey, matched, changed, refused } = position;
  const numbers = [startedAt, matched, changed, refused, beforeKey];
  return ['b', token, ...numbers.map((number) => number?.toString(36) ?? '')].join('.');
}

const number = '([0-9a-z]{1,11})';
const cursorPattern = new RegExp(
  String.raw`^b\.([\w-]{8,64})\.${number}\.${number}\.${number}\.${number}\.${number}?$`,
);

/** Decodes a cursor. Throws `INVALID_INPUT`. */
export function readBulkCursor(cursor: unknown): BulkPosition {
  const [, token = '', ...texts] =
    (typeof cursor === 'string' ? cursorPattern.exec(cursor) : null) ?? [];
  const numbers = texts.map((text: string | undefined) => parseInt(text ?? '0', 36));
  if (token === '' || !numbers.every(Number.isSafeInteger)) {
    throw invalid('cursor', cursor, 'the unchanged `cursor` of an earlier result or progress');
  }
  const [startedAt = 0, matched = 0, changed = 0, refused = 0, beforeKey = 0] = numbers;
  const position = { token, startedAt, matched, changed, refused };
  return texts[4] === undefined ? position : { ...position, beforeKey };
}
