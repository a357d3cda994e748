import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import type { Provider } from '../contract/provider.ts';
import { getExternal } from './external-calls.ts';
import { forkPrefix, ownerOf } from './external-keys.ts';
import { platform } from '../../model/platform.ts';

const pageSize = 1_000;

/** A payload is written before the row that refers to it. It is never deleted within this time. */
const defaultGraceMs = 60 * 60_000;

/** A payload that is this much older than its instance belongs to an earlier, deleted instance with the same id. */
const reuseMs = 24 * 60 * 60_000;
const inspectedAtOnce = 100;

type Reads = Pick<Provider, 'readVersions' | 'inspectInstances'>;

interface SweepOptions {
  readonly nowMs?: number;
  readonly graceMs?: number;
  /** Called before each step. `false` stops the sweep, for example because another process sweeps. */
  readonly mayContinue?: () => Promise<boolean>;
}

/**
 * Deletes the external payloads of instances that do not exist, unless a fork of the instance does. Also deletes payloads that
 * were written long before the instance with their id was created. Needs no record of deletions, so a crash leaves nothing behind that
 * the next sweep does not find. Returns the number of deleted keys.
 */
export async function sweepExternalPayloads(
  store: ExternalPayloadStore,
  provider: Reads,
  {
    nowMs = platform.now(),
    graceMs = defaultGraceMs,
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
    const missing = await findMissing(provider, owners);
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
    if (unused.length > 0) await store.delete(unused);
    deleted += unused.length;
  }
  return deleted;
}

async function findMissing(
  provider: Reads,
  instanceIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const ids = [...new Set(instanceIds)];
  if (ids.length === 0) return new Set();
  const versions = await provider.readVersions(ids);
  return new Set(ids.filter((_, index) => versions[index] === undefined));
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

/** Whether a fork that shares the payloads of an instance exists. */
async function hasFork(
  store: ExternalPayloadStore,
  provider: Reads,
  instanceId: string,
): Promise<boolean> {
  const prefix = forkPrefix(instanceId);
  let after: string | undefined;
  for (;;) {
    const page = { prefix, limit: pageSize, ...(after !== undefined && { after }) };
    const marks = await store.list(page);
    after = marks.at(-1)?.key;
    if (after === undefined) return false;
    const bodies = await Promise.all(marks.map(({ key }) => getExternal(store, key)));
    const forkIds = bodies.flatMap((body) => (body ? new TextDecoder().decode(body) : []));
    const missing = await findMissing(provider, forkIds);
    if (missing.size < new Set(forkIds).size) return true;
  }
}
