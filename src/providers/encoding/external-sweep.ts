import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import type { Provider } from '../contract/provider.ts';
import { getExternal } from './external-calls.ts';
import { forkPrefix, parseKey } from './external-keys.ts';
import { platform } from '../../model/platform.ts';

const pageSize = 1_000;

/** A payload is written before the row that refers to it. It is never deleted within this time. */
const defaultGraceMs = 60 * 60_000;

/**
 * Deletes the external payloads of instances that do not exist, unless a fork of the instance does. Needs no record of
 * deletions, so a crash leaves nothing behind that the next sweep does not find. Returns the number of deleted keys.
 */
export async function sweepExternalPayloads(
  store: ExternalPayloadStore,
  provider: Pick<Provider, 'readVersions'>,
  {
    nowMs = platform.now(),
    graceMs = defaultGraceMs,
    signal,
  }: { readonly nowMs?: number; readonly graceMs?: number; readonly signal?: AbortSignal } = {},
): Promise<number> {
  let deleted = 0;
  let after: string | undefined;
  for (;;) {
    const page = await store.list({ limit: pageSize, ...(after !== undefined && { after }) });
    const last = page.at(-1);
    if (last === undefined || signal?.aborted === true) return deleted;
    after = last.key;
    const old = page.filter(({ writtenAt }) => writtenAt <= nowMs - graceMs);
    const unused = await findUnused(
      store,
      provider,
      old.map(({ key }) => key),
    );
    if (unused.length > 0) await store.delete(unused);
    deleted += unused.length;
  }
}

/** The keys whose instance is gone, with all forks of it. */
async function findUnused(
  store: ExternalPayloadStore,
  provider: Pick<Provider, 'readVersions'>,
  keys: readonly string[],
): Promise<readonly string[]> {
  const parsed = keys.flatMap((key) => {
    const one = parseKey(key);
    return one === undefined ? [] : [{ key, ...one }];
  });
  const missing = await findMissing(
    provider,
    parsed.map(({ instanceId }) => instanceId),
  );
  const candidates = parsed.filter(({ instanceId }) => missing.has(instanceId));
  if (candidates.length === 0) return [];
  // A mark is deleted last: while a fork exists, the payloads stay.
  const kept = await findShared(store, provider, missing);
  return candidates.filter(({ instanceId }) => !kept.has(instanceId)).map(({ key }) => key);
}

async function findMissing(
  provider: Pick<Provider, 'readVersions'>,
  instanceIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const ids = [...new Set(instanceIds)];
  if (ids.length === 0) return new Set();
  const versions = await provider.readVersions(ids);
  return new Set(ids.filter((_, index) => versions[index] === undefined));
}

/** The instances of which a fork exists. */
async function findShared(
  store: ExternalPayloadStore,
  provider: Pick<Provider, 'readVersions'>,
  instanceIds: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const shared = new Set<string>();
  for (const instanceId of instanceIds) {
    const prefix = forkPrefix(instanceId);
    let after: string | undefined;
    for (;;) {
      const marks = await store.list({
        prefix,
        limit: pageSize,
        ...(after !== undefined && { after }),
      });
      const bodies = await Promise.all(marks.map(({ key }) => getExternal(store, key)));
      const forkIds = bodies.flatMap((body) => (body ? new TextDecoder().decode(body) : []));
      const missing = await findMissing(provider, forkIds);
      if (forkIds.some((id) => !missing.has(id))) shared.add(instanceId);
      after = marks.at(-1)?.key;
      if (after === undefined || shared.has(instanceId)) break;
    }
  }
  return shared;
}
