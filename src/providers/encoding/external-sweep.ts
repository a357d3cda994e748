import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import type { Provider } from '../contract/provider.ts';
import { getExternal } from './external-calls.ts';
import { forkPrefix, ownerOf } from './external-keys.ts';
import { platform } from '../../model/platform.ts';

const pageSize = 1_000;

/** A payload is written before the row that refers to it. It is never deleted within this time. */
const defaultGraceMs = 60 * 60_000;

type Reads = Pick<Provider, 'readVersions'>;

interface SweepOptions {
  readonly nowMs?: number;
  readonly graceMs?: number;
  /** Called before each step. `false` stops the sweep, for example because another process sweeps. */
  readonly mayContinue?: () => Promise<boolean>;
}

/**
 * Deletes the external payloads of instances that do not exist, unless a fork of the instance does. Needs no record of
 * deletions, so a crash leaves nothing behind that the next sweep does not find. Returns the number of deleted keys.
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
    const unused: string[] = [];
    for (const owner of await findMissing(provider, owners)) {
      if (!(await mayContinue())) return deleted;
      if (await hasFork(store, provider, owner)) continue;
      unused.push(...(byOwner.get(owner) ?? []).map(({ key }) => key));
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
