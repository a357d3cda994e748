import { invalid, readFields } from '../../model/option-fields.ts';
import { instanceStatuses, type InstanceStatus } from '../../model/status.ts';
import { byteLength } from '../../model/values/payload.ts';
import { flowVersion } from '../../model/definition.ts';
import { maxIdBytes, maxNameBytes } from '../../model/values/names.ts';
import type { InstanceConditions } from '../../providers/contract/instances.ts';
import {
  auditActions,
  type AuditAction,
  type AuditRecord,
  type ListAuditParams,
} from '../../providers/contract/management.ts';
import { bytesOfTexts } from '../../providers/contract/page-bytes.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { toMs } from '../../model/values/duration.ts';
import { checkTags, type Tags } from '../../model/values/tags.ts';
import { readTime } from '../../model/start-settings.ts';
import { toInstanceInfo, toSummary, type InstanceInfo } from './instance-info.ts';

/** A time: a date, milliseconds since the epoch, or a duration such as `'1h'`, which means that long ago. */
export type ListTime = Date | number | string;

/** Conditions that must all hold. Absent: any. */
export interface ListFilter {
  readonly status?: InstanceStatus | readonly InstanceStatus[] | undefined;
  /** `'orchestration'` includes runs of flows; `'flow'` selects only those. */
  readonly kind?: 'orchestration' | 'task' | 'flow' | undefined;
  /** One or several names, at most 20. */
  readonly name?: string | readonly string[] | undefined;
  readonly version?: string | undefined;
  readonly idPrefix?: string | undefined;
  readonly parentId?: string | undefined;
  /** `true`: only instances without a parent. */
  readonly rootsOnly?: boolean | undefined;
  /** Created at this time or later. */
  readonly createdFrom?: ListTime | undefined;
  /** Created before this time. */
  readonly createdBefore?: ListTime | undefined;
  /** Ended at this time or later. */
  readonly endedFrom?: ListTime | undefined;
  /** Ended before this time. */
  readonly endedBefore?: ListTime | undefined;
  /** The `code` of the failure. */
  readonly failureCode?: string | undefined;
  /** Text that the message of the failure contains; the case of ASCII letters does not matter. */
  readonly failureText?: string | undefined;
  /** Whether the instance is blocked. */
  readonly blocked?: boolean | undefined;
  /** Whether a handler ran past its grace. */
  readonly leaked?: boolean | undefined;
  /** Whether the instance itself is paused. A pause of its definition does not count. */
  readonly paused?: boolean | undefined;
  /**
   * Whether a turn that is due, an activity or a task run waits for a definition that no live worker has registered. What
   * is paused or blocked does not wait for a worker.
   */
  readonly unregistered?: boolean | undefined;
  /** The instance has all of these tags. */
  readonly tags?: Tags | undefined;
}

/** Selects a page of a list. */
export interface ListPage {
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined;
}

/** The order of a list of instances. `'ended'`: only instances that have ended, the last end first. */
export type ListOrder = 'created' | 'ended';

/** Selects a page of a list of instances. */
export interface InstanceListPage extends ListPage {
  /** Default `'created'`: the newest instance first. All pages of a list need the same order. */
  readonly orderBy?: ListOrder | undefined;
  /**
   * Include `output`, `customStatus` and the whole `failure`. Default false: a failure has only its name, message and
   * code. A page with payloads may be shorter than `limit`: it ends at 8 MiB.
   */
  readonly payloads?: boolean | undefined;
}

/** A page of a list. It may have fewer entries than `limit`, or none, before the last page. */
export interface InstancePage {
  readonly items: readonly InstanceInfo[];
  /** The `cursor` of the next page; absent on the last. */
  readonly nextCursor?: string;
}

const filterKeys = [
  'status',
  'kind',
  'name',
  'version',
  'idPrefix',
  'parentId',
  'rootsOnly',
  'createdFrom',
  'createdBefore',
  'endedFrom',
  'endedBefore',
  'failureCode',
  'failureText',
  'blocked',
  'leaked',
  'paused',
  'unregistered',
  'tags',
] as const satisfies readonly (keyof ListFilter)[];

const defaultLimit = 100;
/** Maximum bytes of payloads in a page of a list or a history. A single larger entry forms a page of its own. */
export const maxPageBytes = 8 * 1024 * 1024;
/** Maximum entries of a page. */
export const maxPageLimit = 1_000;

/** A page of a list, checked. */
interface PageCall {
  readonly limit: number;
  readonly beforeKey?: number;
}

/** The arguments of `list`, checked. */
export interface ListCall extends PageCall {
  readonly filter: InstanceConditions;
  readonly payloads: boolean;
  readonly orderBy: ListOrder;
  readonly beforeEndedAt?: number;
}

/** Reads one page of instances. */
export async function listInstances(provider: Provider, call: ListCall): Promise<InstancePage> {
  const { instances, nextKey, nextEndedAt } = await provider.listInstances({
    ...call,
    maxBytes: maxPageBytes,
  });
  const items = instances.map(call.payloads ? toInstanceInfo : toSummary);
  if (nextKey === null) return { items };
  const isByEnd = call.orderBy === 'ended';
  return { items, nextCursor: isByEnd ? toEndCursor(nextEndedAt, nextKey) : toCursor(nextKey) };
}

/** Checks the arguments of `list`. */
export function readListArguments(filter: unknown, page: unknown, nowMs: number): ListCall {
  const keys = ['limit', 'cursor', 'payloads', 'orderBy'] as const;
  const given = readFields(page, 'the page of list()', keys);
  const { payloads = false, orderBy = 'created', limit, cursor } = given;
  if (orderBy !== 'created' && orderBy !== 'ended') {
    throw invalid('orderBy', orderBy, "'created' or 'ended'");
  }
  const position = orderBy === 'ended' ? readEndCursor(cursor) : readPage({ cursor }, 'list()');
  return {
    filter: readListFilter(filter, 'the filter of list()', nowMs),
    ...position,
    limit: readLimit(limit),
    payloads: readFlag('payloads', payloads),
    orderBy,
  };
}

/** Encodes the end of a page in the order of ends. */
export function toEndCursor(endedAt: number | null | undefined, key: number): string {
  return `e${(endedAt ?? 0).toString(36)}${toCursor(key)}`;
}

function readEndCursor(cursor: unknown): { beforeKey?: number; beforeEndedAt?: number } {
  if (cursor === undefined) return {};
  const [, time, key] =
    (typeof cursor === 'string' ? /^e([0-9a-z]{1,11})(k[0-9a-z]{1,11})$/.exec(cursor) : null) ?? [];
  const beforeEndedAt = Number.parseInt(time ?? '', 36);
  const beforeKey = key === undefined ? undefined : readCursor(key);
  if (Number.isSafeInteger(beforeEndedAt) && beforeKey !== undefined) {
    return { beforeEndedAt, beforeKey };
  }
  throw invalid('cursor', cursor, 'the unchanged `nextCursor` of the previous page');
}

/** Checks which page of a list to read. */
function readPage(page: unknown, call: string): PageCall {
  const keys = ['limit', 'cursor'] as const;
  const { limit, cursor } = readFields(page, `the page of ${call}`, keys);
  const beforeKey = readCursor(cursor);
  return { limit: readLimit(limit), ...(beforeKey !== undefined && { beforeKey }) };
}

/** Encodes the end of a page as an opaque cursor. */
export function toCursor(key: number): string {
  return `k${key.toString(36)}`;
}

/** Checks the number of entries of a page. */
export function readLimit(limit: unknown): number {
  if (limit === undefined) return defaultLimit;
  const valid = Number.isSafeInteger(limit) && (limit as number) >= 1;
  if (valid && (limit as number) <= maxPageLimit) return limit as number;
  throw invalid('limit', limit, `a whole number from 1 to ${maxPageLimit}`);
}

function readCursor(cursor: unknown): number | undefined {
  if (cursor === undefined) return undefined;
  const key =
    typeof cursor === 'string' && /^k[0-9a-z]{1,11}$/.test(cursor)
      ? Number.parseInt(cursor.slice(1), 36)
      : Number.NaN;
  if (Number.isSafeInteger(key)) return key;
  throw invalid('cursor', cursor, 'the unchanged `nextCursor` of the previous page');
}

/** Checks a filter of instances. `nowMs` is the time from which durations count back. */
export function readListFilter(given: unknown, where: string, nowMs: number): InstanceConditions {
  const filter = readFields(given, where, filterKeys);
  const { status, kind, name, version, idPrefix, parentId, rootsOnly, blocked, leaked } = filter;
  const { paused, unregistered } = filter;
  const tags = checkTags(filter.tags);
  return {
    ...(status !== undefined && { status: readStatus(status) }),
    ...(version !== undefined && { version: readText('version', version, maxNameBytes) }),
    ...(kind !== undefined && readKind(kind, version)),
    ...(name !== undefined && { names: readNames(name) }),
    ...(idPrefix !== undefined && { idPrefix: readText('idPrefix', idPrefix, maxIdBytes) }),
    ...(parentId !== undefined && { parentInstanceId: readText('parentId', parentId, maxIdBytes) }),
    // `false` selects all instances, so it is no condition.
    ...(rootsOnly !== undefined && readFlag('rootsOnly', rootsOnly) && { rootsOnly: true }),
    ...readTimes(filter, nowMs),
    ...readTexts(filter),
    ...(blocked !== undefined && { blocked: readFlag('blocked', blocked) }),
    ...(leaked !== undefined && { leaked: readFlag('leaked', leaked) }),
    ...(paused !== undefined && { paused: readFlag('paused', paused) }),
    ...(unregistered !== undefined && { unregistered: readFlag('unregistered', unregistered) }),
    ...(tags !== undefined && { tags }),
  };
}

const timeKeys = ['createdFrom', 'createdBefore', 'endedFrom', 'endedBefore'] as const;

function readTimes(
  filter: Readonly<Partial<Record<(typeof timeKeys)[number], unknown>>>,
  nowMs: number,
): Pick<InstanceConditions, (typeof timeKeys)[number]> {
  const times = timeKeys.flatMap((key) => {
    const time = filter[key];
    if (time === undefined) return [];
    const at = typeof time === 'string' ? ago(key, time, nowMs) : time;
    // Times are stored in whole milliseconds, so rounding up changes neither "from" nor "before".
    return [[key, Math.ceil(readTime(key, at) ?? 0)]];
  });
  return Object.fromEntries(times) as Pick<InstanceConditions, (typeof timeKeys)[number]>;
}

/** Returns the time that is a duration before `nowMs`. */
export function ago(key: string, duration: string, nowMs: number): number {
  try {
    return nowMs - toMs(duration, key);
  } catch {
    throw invalid(
      key,
      duration,
      "a Date, milliseconds since the epoch, or a duration such as '1h'",
    );
  }
}

const textKeys = ['failureCode', 'failureText'] as const;
const maxFailureTextBytes = 1_000;

function readTexts(
  filter: Readonly<Partial<Record<(typeof textKeys)[number], unknown>>>,
): Pick<InstanceConditions, (typeof textKeys)[number]> {
  const texts = textKeys.flatMap((key) =>
    filter[key] === undefined ? [] : [[key, readText(key, filter[key], maxFailureTextBytes)]],
  );
  return Object.fromEntries(texts) as Pick<InstanceConditions, (typeof textKeys)[number]>;
}

const maxNames = 20;

function readNames(value: unknown): readonly string[] {
  const names: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (names.length === 0 || names.length > maxNames) {
    throw invalid('name', value, `one name, or a list of 1 to ${maxNames} names`);
  }
  return [...new Set(names.map((name) => readText('name', name, maxNameBytes)))];
}

function readStatus(value: unknown): readonly InstanceStatus[] {
  const statuses: readonly unknown[] = Array.isArray(value) ? value : [value];
  const known = statuses.filter((status) => instanceStatuses.includes(status as InstanceStatus));
  if (known.length === statuses.length && known.length > 0) return known as InstanceStatus[];
  throw invalid('status', value, `one or several of ${instanceStatuses.join(', ')}`);
}

function readKind(kind: unknown, version: unknown): Pick<InstanceConditions, 'kind' | 'version'> {
  if (kind === 'orchestration' || kind === 'task') return { kind };
  if (kind === 'flow') {
    if (version === undefined) return { kind: 'orchestration', version: flowVersion };
    throw invalid('version', version, "no `version` with `kind: 'flow'`: flows have none");
  }
  throw invalid('kind', kind, "'orchestration', 'task' or 'flow'");
}

function readText(key: string, value: unknown, maxBytes: number): string {
  if (typeof value === 'string' && value !== '' && byteLength(value) <= maxBytes) return value;
  throw invalid(key, value, `text of 1 to ${maxBytes} bytes`);
}

function readFlag(key: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw invalid(key, value, 'true or false');
}

/** Selects audit records. Conditions that must all hold. Absent: any. */
export interface AuditQuery extends ListPage {
  readonly action?: AuditAction | readonly AuditAction[] | undefined;
  readonly actor?: string | undefined;
  /** Actions on this instance alone. Bulk operations name no instances. */
  readonly instanceId?: string | undefined;
  /** Recorded at this time or later. */
  readonly from?: Date | number | undefined;
  /** Recorded before this time. */
  readonly to?: Date | number | undefined;
}

/** The arguments of `listAudit`, checked. */
export interface AuditCall extends PageCall {
  readonly filter: Pick<ListAuditParams, 'actions' | 'actor' | 'instanceId' | 'from' | 'before'>;
}

const auditKeys = ['limit', 'cursor', 'action', 'actor', 'instanceId', 'from', 'to'] as const;

/** Checks the arguments of `listAudit`. */
export function readAuditQuery(query: unknown): AuditCall {
  const given = readFields(query, 'listAudit()', auditKeys);
  const { limit, cursor, action, actor, instanceId, from, to } = given;
  return {
    ...readPage({ limit, cursor }, 'listAudit()'),
    filter: {
      ...(action !== undefined && { actions: readActions(action) }),
      // A server adds the name of the token, so the actor may be longer than a name.
      ...(actor !== undefined && { actor: readText('actor', actor, 2 * maxNameBytes + 2) }),
      ...(instanceId !== undefined && {
        instanceId: readText('instanceId', instanceId, maxIdBytes),
      }),
      ...(from !== undefined && { from: Math.ceil(readTime('from', from) ?? 0) }),
      ...(to !== undefined && { before: Math.ceil(readTime('to', to) ?? 0) }),
    },
  };
}

function readActions(value: unknown): readonly AuditAction[] {
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  const known = auditActions.filter((action) => given.includes(action));
  if (given.length > 0 && given.every((one) => known.some((action) => action === one))) {
    return known;
  }
  throw invalid('action', value, `one or several of ${auditActions.join(', ')}`);
}

/** A page of the audit, newest first. It may be shorter than `limit` before the last page. */
export interface AuditPage {
  readonly items: readonly AuditRecord[];
  /** The `cursor` of the next page; absent on the last. */
  readonly nextCursor?: string;
}

// The filter of a record may name 100 definitions, so few are read at a time.
const readAtOnce = 100;

/** Reads one page of audit records, which ends at 8 MiB. */
export async function listAudit(
  provider: Provider,
  { limit, beforeKey: from, filter }: AuditCall,
): Promise<AuditPage> {
  const items: AuditRecord[] = [];
  let bytes = 0;
  let beforeKey = from;
  for (;;) {
    // One extra entry shows whether there is a next page.
    const wanted = Math.min(limit + 1 - items.length, readAtOnce);
    const records = await provider.listAudit({
      ...filter,
      limit: wanted,
      ...(beforeKey !== undefined && { beforeKey }),
    });
    for (const record of records) {
      bytes += bytesOfTexts(record.filter, record.actor, record.reason);
      const last = items.at(-1);
      const isFull = items.length === limit || bytes > maxPageBytes;
      if (isFull && last !== undefined) return { items, nextCursor: toCursor(last.auditKey) };
      items.push(record);
    }
    if (records.length < wanted) return { items };
    beforeKey = items.at(-1)?.auditKey;
  }
}
