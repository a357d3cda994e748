import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import { externalEnvelope } from '../../model/encoding/envelope.ts';
import type { Provider } from '../contract/provider.ts';
import { getExternal } from './external-calls.ts';
import { forkPrefix, isPayloadKey, ownerOf } from './external-keys.ts';
import { externalKeysIn } from './external-references.ts';
import { platform } from '../../model/platform.ts';

const pageSize = 1_000;

/** A payload is written before the row that refers to it. It is never deleted within this time. */
const defaultGraceMs = 60 * 60_000;

/** A payload that is this much older than its instance belongs to an earlier, deleted instance with the same id. */
const reuseMs = 24 * 60 * 60_000;
const inspectedAtOnce = 100;
const maxSeen = 100_000;

type Reads = Pick<
  Provider,
  'readVersions' | 'inspectInstances' | 'listExecutions' | 'findStoredTexts'
>;

interface SweepOptions {
  readonly nowMs?: number;
  readonly graceMs?: number;
  /** What earlier sweeps of this process have seen. */
  readonly seen?: SweptInstances | undefined;
  /** Called before each step. `false` stops the sweep, for example because another process sweeps. */
  readonly mayContinue?: () => Promise<boolean>;
}

/**
 * The instances with pruned executions whose payloads a sweep has compared with the store, with the state of that time. The
 * comparison reads all rows of an instance, so it is not repeated without a new prune or new old payloads.
 */
export class SweptInstances {
  readonly #states = new Map<string, string>();

  /** Whether an instance was seen in this state. */
  has(instanceId: string, state: string): boolean {
    return this.#states.get(instanceId) === state;
  }

  add(instanceId: string, state: string): void {
    if (this.#states.size >= maxSeen) this.#states.clear();
    this.#states.set(instanceId, state);
  }
}

/**
 * Deletes the external payloads of instances that do not exist, unless a fork of the instance does. Also deletes payloads that
 * were written long before the instance with their id was created, and those to which no row of an instance with pruned executions
 * refers. Needs no record of deletions, so a crash leaves nothing behind that the next sweep does not find. Returns the number of
 * deleted keys.
 */
export async function sweepExternalPayloads(
  store: ExternalPayloadStore,
  provider: Reads,
  {
    nowMs = platform.now(),
    graceMs = defaultGraceMs,
    seen = new SweptInstances(),
    mayContinue = () => Promise.resolve(true),
  }: SweepOptions = {},
): Promise<number> {
  let deleted = 0;
  let after: string | undefined;
  while (await mayContinue()) {
    const page = await store.list({ limit: pageSize, ...(after !== undefined && { after }) });
    after = page.at(-1)?.key;
    if (after === undefined) break;
    const old = page.filter(({ writtenAt }) => writtenAt <= nowMs - graceMs);
    const byOwner = Map.groupBy(old, ({ key }) => ownerOf(key));
    const owners = [...byOwner.keys()].filter((owner) => owner !== undefined);
    const executions = await readExecutionIds(provider, owners);
    const missing = new Set(owners.filter((owner) => !executions.has(owner)));
    const existing = owners.filter((owner) => {
      const keys = byOwner.get(owner) ?? [];
      return !missing.has(owner) && keys.some(({ writtenAt }) => writtenAt < nowMs - reuseMs);
    });
    const createdAt = await readCreationTimes(provider, existing, nowMs);
    const unused: string[] = [];
    for (const owner of [...missing, ...createdAt.keys()]) {
      if (!(await mayContinue())) return deleted;
      const endMs = (createdAt.get(owner) ?? Infinity) - reuseMs;
      const keys = (byOwner.get(owner) ?? []).filter(({ writtenAt }) => writtenAt <= endMs);
      if (keys.length === 0 || (await hasFork(store, provider, owner))) continue;
      unused.push(...keys.map(({ key }) => key));
    }
    const deleting = new Set(unused);
    for (const [owner, entries] of byOwner) {
      // An instance in its first execution has no pruned ones.
      if (owner === undefined || (executions.get(owner) ?? 1) === 1) continue;
      if (!(await mayContinue())) return deleted;
      const keys = entries.map(({ key }) => key).filter((key) => !deleting.has(key));
      unused.push(...(await findUnreferenced(store, provider, { owner, keys, seen })));
    }
    if (unused.length > 0) await store.delete(unused);
    deleted += unused.length;
  }
  return deleted;
}

/** Returns the current executions of instances. Leaves out those that do not exist. */
async function readExecutionIds(
  provider: Reads,
  instanceIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const ids = [...new Set(instanceIds)];
  if (ids.length === 0) return new Map();
  const versions = await provider.readVersions(ids);
  return new Map(
    versions.flatMap((one) => (one === undefined ? [] : [[one.instanceId, one.executionId]])),
  );
}

/** Returns when instances were created. Leaves out those that do not exist, or were created in the future. */
async function readCreationTimes(
  provider: Reads,
  instanceIds: readonly string[],
  nowMs: number,
): Promise<ReadonlyMap<string, number>> {
  const times = new Map<string, number>();
  for (let start = 0; start < instanceIds.length; start += inspectedAtOnce) {
    const part = instanceIds.slice(start, start + inspectedAtOnce);
    const found = await provider.inspectInstances({
      instanceIds: part,
      maxPending: 1,
      maxEvents: 1,
    });
    for (const one of found) {
      // With another clock than that of the external store, times cannot be compared.
      if (one !== undefined && one.record.createdAt <= nowMs)
        times.set(one.record.instanceId, one.record.createdAt);
    }
  }
  return times;
}

/** The payloads of an instance with pruned executions to which neither its rows nor those of its forks refer. */
async function findUnreferenced(
  store: ExternalPayloadStore,
  provider: Reads,
  {
    owner,
    keys,
    seen,
  }: { readonly owner: string; readonly keys: readonly string[]; readonly seen: SweptInstances },
): Promise<readonly string[]> {
  const payloads = keys.filter(isPayloadKey);
  if (payloads.length === 0) return [];
  const [oldest] = await provider.listExecutions({ instanceId: owner, after: 0, limit: 1 });
  if (oldest === undefined || oldest.executionId === 1) return [];
  // A page of keys can begin within the keys of an instance.
  const place = `${owner} ${payloads[0]}`;
  const state = `${oldest.executionId} ${payloads.length}`;
  if (seen.has(place, state)) return [];
  const used = new Set<string>();
  // The forks after their source: one that is copied meanwhile exists before a prune of the source can commit.
  for (const find of [() => Promise.resolve([owner]), () => findForks(store, provider, owner)]) {
    for (const instanceId of await find()) {
      const texts = await provider.findStoredTexts({ instanceId, text: externalEnvelope('') });
      for (const key of texts.flatMap(externalKeysIn)) used.add(key);
    }
  }
  const unused = payloads.filter((key) => !used.has(key));
  seen.add(place, state);
  return unused;
}

/** Whether a fork that shares the payloads of an instance exists. */
async function hasFork(
  store: ExternalPayloadStore,
  provider: Reads,
  instanceId: string,
): Promise<boolean> {
  return (await findForks(store, provider, instanceId, 1)).length > 0;
}

/** The forks of an instance that exist, at most `max`. */
async function findForks(
  store: ExternalPayloadStore,
  provider: Reads,
  instanceId: string,
  max = Infinity,
): Promise<readonly string[]> {
  const found = new Set<string>();
  const prefix = forkPrefix(instanceId);
  let after: string | undefined;
  for (;;) {
    const page = { prefix, limit: pageSize, ...(after !== undefined && { after }) };
    const marks = await store.list(page);
    after = marks.at(-1)?.key;
    if (after === undefined) return [...found];
    const bodies = await Promise.all(marks.map(({ key }) => getExternal(store, key)));
    const forkIds = bodies.flatMap((body) => (body ? new TextDecoder().decode(body) : []));
    for (const id of (await readExecutionIds(provider, forkIds)).keys()) found.add(id);
    if (found.size >= max) return [...found];
  }
}
