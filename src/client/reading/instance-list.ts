import { byteLength } from '../../model/values/payload.ts';
import { flowVersion } from '../../model/definition.ts';
import { maxIdBytes, maxNameBytes } from '../../model/values/names.ts';
import { instanceStatuses, type InstanceStatus } from '../../model/status.ts';
import type {
  InstanceConditions,
  ListInstancesParams,
} from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { toInstanceInfo, toSummary, type InstanceInfo } from './instance-info.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { maxPageBytes } from './page-bytes.ts';

/** Conditions that must all hold. Absent: any. */
export interface ListFilter {
  readonly status?: InstanceStatus | readonly InstanceStatus[] | undefined;
  /** `'orchestration'` includes the runs of flows, `'flow'` is those alone. */
  readonly kind?: 'orchestration' | 'task' | 'flow' | undefined;
  readonly name?: string | undefined;
  readonly idPrefix?: string | undefined;
  readonly parentId?: string | undefined;
  /** Created at this moment or later. */
  readonly createdFrom?: Date | number | undefined;
  /** Created before this moment. */
  readonly createdBefore?: Date | number | undefined;
  /** Whether its turns are held back. */
  readonly blocked?: boolean | undefined;
}

/** Which page of a list. */
export interface ListPage {
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined;
}

/** Which page of a list of instances, and how much of each. */
export interface InstanceListPage extends ListPage {
  /**
   * Whether entries have their `output` and `customStatus`, and all of their `failure`. Default `false`: a failure then has
   * its name, message and code. A page with payloads may be shorter than `limit`: it ends at 8 MiB.
   */
  readonly payloads?: boolean | undefined;
}

/** A page of a list, and where the next one begins. It may have fewer entries than `limit` and still not be the last. */
export interface InstancePage {
  readonly items: readonly InstanceInfo[];
  /** Where the next page begins; absent on the last. */
  readonly nextCursor?: string;
}

const filterKeys = [
  'status',
  'kind',
  'name',
  'idPrefix',
  'parentId',
  'createdFrom',
  'createdBefore',
  'blocked',
] as const satisfies readonly (keyof ListFilter)[];

const defaultLimit = 100;
/** No page is longer. */
export const maxPageLimit = 1_000;

/** Reads one page of instances. */
export async function listInstances(
  provider: Provider,
  filter: unknown,
  page: unknown,
): Promise<InstancePage> {
  const params = readListParams(filter, page);
  const records = await provider.listInstances({
    ...params,
    // One more than asked tells whether there is a next page.
    limit: params.limit + 1,
    maxBytes: maxPageBytes,
  });
  // An entry that is withheld is that one more.
  const shown = records.slice(0, params.limit).filter(({ withheld }) => withheld !== true);
  const items = shown.map(params.payloads ? toInstanceInfo : toSummary);
  const last = shown.at(-1);
  if (last === undefined || records.length === shown.length) return { items };
  return { items, nextCursor: toCursor(last.instanceKey) };
}

/** Turns what a caller asks for into what a provider understands; bad values are `INVALID_INPUT`. */
export function readListParams(
  filter: unknown,
  page: unknown,
): ListInstancesParams & { readonly payloads: boolean } {
  const keys = ['limit', 'cursor', 'payloads'] as const;
  const { payloads = false, ...rest } = readFields(page, 'page', keys);
  return {
    filter: readFilter(filter),
    ...readPage(rest),
    payloads: readFlag('payloads', payloads),
  };
}

/** Reads which page of a list. */
export function readPage(page: unknown): { readonly limit: number; readonly beforeKey?: number } {
  const { limit, cursor } = readFields(page, 'page', ['limit', 'cursor'] as const);
  const beforeKey = readCursor(cursor);
  return { limit: readLimit(limit), ...(beforeKey !== undefined && { beforeKey }) };
}

/** Names where a page ended, in a way that nobody counts on. */
export function toCursor(key: number): string {
  return `k${key.toString(36)}`;
}

/** Reads how many entries a page may have. */
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
  throw invalid('cursor', cursor, 'the nextCursor of the page before, as it was given');
}

function readFilter(given: unknown): InstanceConditions {
  const filter = readFields(given, 'filter', filterKeys);
  const { status, kind, name, idPrefix, parentId, createdFrom, createdBefore, blocked } = filter;
  return {
    ...(status !== undefined && { status: readStatus(status) }),
    ...(kind !== undefined && readKind(kind)),
    ...(name !== undefined && { name: readText('name', name, maxNameBytes) }),
    ...(idPrefix !== undefined && { idPrefix: readText('idPrefix', idPrefix, maxIdBytes) }),
    ...(parentId !== undefined && { parentInstanceId: readText('parentId', parentId, maxIdBytes) }),
    ...(createdFrom !== undefined && { createdFrom: readTime('createdFrom', createdFrom) }),
    ...(createdBefore !== undefined && { createdBefore: readTime('createdBefore', createdBefore) }),
    ...(blocked !== undefined && { blocked: readFlag('blocked', blocked) }),
  };
}

function readStatus(value: unknown): readonly InstanceStatus[] {
  const statuses: readonly unknown[] = Array.isArray(value) ? value : [value];
  const known = statuses.filter((status) => instanceStatuses.includes(status as InstanceStatus));
  if (known.length === statuses.length && known.length > 0) return known as InstanceStatus[];
  throw invalid('status', value, `one or several of ${instanceStatuses.join(', ')}`);
}

function readKind(kind: unknown): Pick<InstanceConditions, 'kind' | 'version'> {
  if (kind === 'orchestration' || kind === 'task') return { kind };
  if (kind === 'flow') return { kind: 'orchestration', version: flowVersion };
  throw invalid('kind', kind, "'orchestration', 'task' or 'flow'");
}

function readText(key: string, value: unknown, maxBytes: number): string {
  if (typeof value === 'string' && value !== '' && byteLength(value) <= maxBytes) return value;
  throw invalid(key, value, `text of 1 to ${maxBytes} bytes`);
}

// Times are stored as whole milliseconds, so rounding up changes neither "from" nor "before".
function readTime(key: string, value: unknown): number {
  const time = value instanceof Date ? value.getTime() : value;
  if (typeof time === 'number' && Math.abs(time) <= 8.64e15) return Math.ceil(time);
  throw invalid(key, value, 'a valid Date, or milliseconds since the epoch');
}

function readFlag(key: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw invalid(key, value, 'true or false');
}
