import { readAuditOptions, type AuditNote, type AuditOptions } from '../../model/audit-options.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { checkCount, checkLaneKey, readRate, type RateOptions } from '../../model/limit-options.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { checkName } from '../../model/values/names.ts';
import type {
  HoldingLimit,
  LimitedKind,
  LimitOverride,
  Limits as LimitFigures,
} from '../../providers/contract/limits.ts';

/** The definition whose limits are read or changed: its name, or its kind and name. A definition fits, too. */
export type LimitTarget =
  | string
  | { readonly name: string; readonly kind?: LimitedKind | 'flow' | undefined };

/** The limits of a definition, and how far they are used. All times are milliseconds since the epoch. */
export interface LimitsInfo {
  readonly kind: LimitedKind;
  readonly name: string;
  /** What holds: the declared limits with the figures that an operator set. An absent figure is unlimited. */
  readonly effective: LimitFigures;
  /** What the newest build declares. */
  readonly declared: LimitFigures;
  /** The build whose declaration counts. Absent: no worker has declared limits. */
  readonly declaredBy?: string;
  /** What an operator set; `null` removes a limit. Absent: nothing. */
  readonly override?: LimitOverride;
  /** Runs that hold a place. Can exceed a limit that was lowered. */
  readonly running: number;
  /** Runs without a place, due or delayed, counted up to 1,000. */
  readonly waiting: number;
  /** When the next run may start, if the rate of the definition is used up. */
  readonly nextTokenAt?: number;
}

/** One key of a definition. */
export interface LimitKeyInfo {
  /** Empty: runs without a key. */
  readonly key: string;
  /** Its share among the keys that wait. */
  readonly weight: number;
  readonly running: number;
  /** Runs without a place, due or delayed, counted up to 1,000. */
  readonly waiting: number;
  /** The limit that holds its due runs back. Absent: none. */
  readonly heldBy?: HoldingLimit;
  /** When its next run may start, if a delay or a rate decides it. */
  readonly nextAt?: number;
}

/** A page of limits. */
export interface LimitsInfoPage {
  readonly items: readonly LimitsInfo[];
  /** The `cursor` of the next page; absent on the last. */
  readonly nextCursor?: string;
}

/** A page of keys. */
export interface LimitKeyPage {
  readonly items: readonly LimitKeyInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

/** A change of limits. An absent figure stays as it is; `null` removes the limit. */
export interface LimitChange {
  readonly concurrency?:
    | {
        readonly global?: number | null | undefined;
        readonly perKey?: number | null | undefined;
      }
    | undefined;
  readonly rate?: RateOptions | null | undefined;
}

/** Options of `limits.keys()`. */
export interface LimitKeysOptions {
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
  /** With the order `key`: the `nextAfter` of the page before. */
  readonly after?: string | undefined;
  /** `waiting` (default): the keys with the most waiting runs, one page. `key`: by key, in pages. */
  readonly order?: 'waiting' | 'key' | undefined;
}

/** The target of a call, checked. Without a kind, the name must be unique among limited definitions. */
export interface CheckedTarget {
  readonly name: string;
  readonly kind?: LimitedKind;
}

/** The keys to read, checked. */
export interface KeysQuery {
  readonly limit: number;
  readonly order: 'waiting' | 'key';
  readonly after?: string;
}

/** The part of a client's backend that reads and changes limits. */
export interface LimitBackend {
  list(page: { readonly limit: number; readonly cursor?: string }): Promise<LimitsInfoPage>;
  get(target: CheckedTarget): Promise<LimitsInfo | undefined>;
  set(target: CheckedTarget, override: LimitOverride, note: AuditNote): Promise<LimitsInfo>;
  reset(target: CheckedTarget, note: AuditNote): Promise<LimitsInfo>;
  keys(target: CheckedTarget, query: KeysQuery): Promise<LimitKeyPage>;
}

const kinds: readonly LimitedKind[] = ['orchestration', 'activity', 'task'];
const maxPage = 1_000;

/** Reads and changes the limits of definitions, for all workers. */
export class Limits {
  readonly #backend: LimitBackend;
  readonly #assertOpen: () => void;

  constructor(backend: LimitBackend, assertOpen: () => void) {
    this.#backend = backend;
    this.#assertOpen = assertOpen;
  }

  /** Lists the definitions that have limits or keys, by kind and name, one page at a time. */
  async list(page?: {
    readonly limit?: number | undefined;
    readonly cursor?: string | undefined;
  }): Promise<LimitsInfoPage> {
    this.#assertOpen();
    const { limit, cursor } = readFields(page, 'limits.list()', ['limit', 'cursor'] as const);
    return this.#backend.list({
      limit: readLimit(limit),
      ...(cursor !== undefined && { cursor: readCursor(cursor) }),
    });
  }

  /** Reads the limits of a definition; `undefined` if it has neither limits nor keys. */
  async get(target: LimitTarget): Promise<LimitsInfo | undefined> {
    this.#assertOpen();
    return this.#backend.get(readTarget(target, 'limits.get()'));
  }

  /**
   * Changes limits for all workers, until `reset`: the figures replace those of the code. A lowered limit stops nothing
   * that runs. A definition that has no limits yet needs its kind. Idempotent.
   */
  async set(target: LimitTarget, change: LimitChange, options?: AuditOptions): Promise<LimitsInfo> {
    this.#assertOpen();
    const where = 'limits.set()';
    const checked = readTarget(target, where);
    const note = readAuditOptions(options, where);
    return this.#backend.set(checked, readChange(checked, change), note);
  }

  /** Deletes what `set` changed: the limits of the code hold again. Idempotent. */
  async reset(target: LimitTarget, options?: AuditOptions): Promise<LimitsInfo> {
    this.#assertOpen();
    const where = 'limits.reset()';
    return this.#backend.reset(readTarget(target, where), readAuditOptions(options, where));
  }

  /** Lists the keys of a definition that have runs, or a rate that is used. */
  async keys(target: LimitTarget, options?: LimitKeysOptions): Promise<LimitKeyPage> {
    this.#assertOpen();
    const checked = readTarget(target, 'limits.keys()');
    return this.#backend.keys(checked, readKeysOptions(options));
  }
}

function readTarget(target: unknown, where: string): CheckedTarget {
  if (typeof target === 'string') return { name: checkName(target, 'Name') };
  // A definition also fits, and has more fields. Without a `kind`, an unknown field is a typo.
  const isDefinition =
    typeof target === 'object' &&
    target !== null &&
    (target as { readonly kind?: unknown }).kind !== undefined;
  const { name, kind } = isDefinition
    ? (target as { readonly name?: unknown; readonly kind?: unknown })
    : readFields(target ?? null, `the target of ${where}`, ['name', 'kind'] as const);
  const checked = checkName(name, 'Name');
  if (kind === undefined) return { name: checked };
  const known = kind === 'flow' ? 'orchestration' : kinds.find((one) => one === kind);
  if (known !== undefined) return { name: checked, kind: known };
  throw invalid('kind', kind, "'orchestration', 'activity', 'task' or 'flow'");
}

function readChange({ kind }: CheckedTarget, change: unknown): LimitOverride {
  const where = 'limits.set()';
  const given = readFields(change, where, ['concurrency', 'rate'] as const);
  const { concurrency, rate } = given;
  const figures = readFields(concurrency, `concurrency of ${where}`, ['global', 'perKey'] as const);
  const { global, perKey } = figures;
  const override: LimitOverride = {
    ...(global !== undefined && { global: countOrNull('concurrency.global', global) }),
    ...(perKey !== undefined && { perKey: countOrNull('concurrency.perKey', perKey) }),
    ...(rate !== undefined && { rate: rate === null ? null : readRate(where, rate) }),
  };
  if (Object.keys(override).length === 0) {
    throw new PerdureError(
      'INVALID_OPTION',
      `The change in ${where} is empty: pass \`concurrency\` or \`rate\`. To return to the limits of the code, call limits.reset().`,
    );
  }
  if (kind === 'orchestration' && rate !== undefined && rate !== null) {
    throw new PerdureError(
      'INVALID_OPTION',
      'Invalid `rate` in limits.set(): orchestrations and flows have no rate. Limit the rate of their activities or tasks.',
    );
  }
  return override;
}

function countOrNull(name: string, value: unknown): number | null {
  return value === null ? null : checkCount(name, value, 'or null for no limit');
}

function readKeysOptions(options: unknown): KeysQuery {
  const given = readFields(options, 'limits.keys()', ['limit', 'after', 'order'] as const);
  const { limit, after, order = after === undefined ? 'waiting' : 'key' } = given;
  if (order !== 'waiting' && order !== 'key') throw invalid('order', order, "'waiting' or 'key'");
  if (order === 'waiting' && after !== undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      "Invalid `after` in limits.keys(): only the order 'key' has pages. Pass `order: 'key'`.",
    );
  }
  return {
    limit: readLimit(limit),
    order,
    // The empty key is the lane of runs without a key, and can end a page.
    ...(after !== undefined && { after: after === '' ? '' : checkLaneKey(after) }),
  };
}

function readLimit(limit: unknown = 100): number {
  const count = limit as number;
  if (Number.isSafeInteger(count) && count >= 1 && count <= maxPage) return count;
  throw invalid('limit', limit, `a whole number from 1 to ${maxPage}`);
}

function readCursor(cursor: unknown): string {
  if (typeof cursor === 'string' && parseCursor(cursor) !== undefined) return cursor;
  throw invalid('cursor', cursor, 'the `nextCursor` of a page');
}

/** The position after a definition, as a cursor. */
export function toCursor({ kind, name }: Pick<LimitsInfo, 'kind' | 'name'>): string {
  return `${kind}:${name}`;
}

/** Parses a cursor; `undefined` if it is none. */
export function parseCursor(
  cursor: string,
): { readonly kind: LimitedKind; readonly name: string } | undefined {
  const kind = kinds.find((one) => cursor.startsWith(`${one}:`));
  return kind && { kind, name: cursor.slice(kind.length + 1) };
}
