import type { Request } from '../../api/operations.ts';
import { serverNow } from '../../state/clock.ts';
import { storedStatuses, type StoredStatus } from '../../words/status.ts';

type ListQuery = NonNullable<Request<'listInstances'>['query']>;
/** The conditions of a list, without its page. */
export type Conditions = Omit<ListQuery, 'limit' | 'cursor' | 'payloads'>;

/** A field that the filter bar offers. */
export interface FilterField {
  /** The parameter of the address. */
  readonly key: string;
  /** Before the value: `name is`. */
  readonly words: string;
  /** What to type. */
  readonly hint: string;
  /** Whether several values may be given. */
  readonly many?: boolean;
  /** Fixed values to choose from. */
  readonly values?: readonly string[];
}

const windows = ['15m', '1h', '24h', '7d', '30d'];
const yesNo = ['yes', 'no'];

export const filterFields: readonly FilterField[] = [
  { key: 'name', words: 'name is', hint: 'an orchestration, task or flow', many: true },
  { key: 'id', words: 'id starts with', hint: 'the beginning of an id' },
  { key: 'tag', words: 'tag', hint: 'tenant=7', many: true },
  { key: 'kind', words: 'kind is', hint: '', values: ['orchestration', 'task', 'flow'] },
  { key: 'version', words: 'version is', hint: 'a version' },
  { key: 'created', words: 'created in last', hint: '24h', values: windows },
  { key: 'ended', words: 'ended in last', hint: '1h', values: windows },
  { key: 'code', words: 'failure code is', hint: 'PAYMENT_DECLINED' },
  { key: 'error', words: 'failure contains', hint: 'text of the message' },
  { key: 'blocked', words: 'blocked', hint: '', values: yesNo },
  { key: 'paused', words: 'paused', hint: '', values: yesNo },
  { key: 'leaked', words: 'leaked handler', hint: '', values: yesNo },
  { key: 'roots', words: 'roots only', hint: '', values: yesNo },
  { key: 'parent', words: 'child of', hint: 'the id of the parent' },
  { key: 'createdFrom', words: 'created from', hint: '2026-11-17T08:00' },
  { key: 'createdBefore', words: 'created before', hint: '2026-11-17T09:00' },
  { key: 'endedFrom', words: 'ended from', hint: '2026-11-17T08:00' },
  { key: 'endedBefore', words: 'ended before', hint: '2026-11-17T09:00' },
];

const units: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Milliseconds of `24h`; `undefined` if it is not a duration. */
function windowMs(text: string): number | undefined {
  const match = /^(\d{1,6})([smhd])$/.exec(text);
  const unit = match?.[2] === undefined ? undefined : units[match[2]];
  return unit === undefined ? undefined : Number(match?.[1]) * unit;
}

/** The statuses in the address that exist. */
export function statusesIn(query: URLSearchParams): readonly StoredStatus[] {
  const given = query.getAll('status');
  return storedStatuses.filter((status) => given.includes(status));
}

/** Whether the address names any condition. */
export function hasConditions(query: URLSearchParams): boolean {
  return query.has('status') || filterFields.some(({ key }) => query.has(key));
}

/** Converts the parameters of the address to the conditions of a request. Values that cannot be valid are dropped. */
export function toConditions(query: URLSearchParams, { withStatus = true } = {}): Conditions {
  const text = (key: string): string | undefined => query.get(key) ?? undefined;
  const flag = (key: string): boolean | undefined => {
    const value = query.get(key);
    return value === 'yes' ? true : value === 'no' ? false : undefined;
  };
  // Rounded, so that the requests of one minute are the same.
  const since = (key: string): number | undefined => {
    const ms = windowMs(query.get(key) ?? '');
    return ms === undefined ? undefined : Math.floor((serverNow() - ms) / 60_000) * 60_000;
  };
  const time = (key: string): number | undefined => {
    const at = Date.parse(query.get(key) ?? '');
    return Number.isNaN(at) ? undefined : at;
  };
  const names = query.getAll('name').filter(Boolean).slice(0, 20);
  const tags = query
    .getAll('tag')
    .filter((tag) => /^[^=]+=./s.test(tag))
    .slice(0, 16);
  const statuses = withStatus ? statusesIn(query) : [];
  const kind = ['orchestration', 'task', 'flow'].find((one) => one === query.get('kind'));
  const conditions = {
    ...(statuses.length > 0 && { status: [...statuses] }),
    ...(names.length > 0 && { name: names }),
    ...(tags.length > 0 && { tag: tags }),
    kind: kind as Conditions['kind'],
    version: text('version'),
    idPrefix: text('id'),
    parentId: text('parent'),
    rootsOnly: flag('roots') === true ? true : undefined,
    createdFrom: since('created') ?? time('createdFrom'),
    createdBefore: time('createdBefore'),
    endedFrom: since('ended') ?? time('endedFrom'),
    endedBefore: time('endedBefore'),
    failureCode: text('code'),
    failureText: text('error'),
    blocked: flag('blocked'),
    leaked: flag('leaked'),
    paused: flag('paused'),
  };
  return Object.fromEntries(
    Object.entries(conditions).filter(([, value]) => value !== undefined && value !== ''),
  );
}
