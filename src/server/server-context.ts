import { LocalClient } from '../client/local-client.ts';
import { openHistoryExport } from '../client/reading/history.ts';
import { checkInstanceId } from '../model/values/names.ts';
import type { Backstage } from './call.ts';
import { ChangeFeed } from './reading/change-feed.ts';
import type { CheckedOptions } from './handler-options.ts';
import { JobBindings } from './access/job-bindings.ts';
import { makeOpenApi } from './open-api.ts';
import type { ServerFigures } from './reading/server-metrics.ts';
import { SessionOwners } from './access/session-owners.ts';

// An id that a store is asked for to see whether it answers; nobody need have it.
const probeId = 'perdure-health';
// The question needs no token, so it must not cost much to ask it often.
const healthMs = 1_000;

/** Puts together what stands behind the routes. */
export function makeBackstage(
  client: LocalClient,
  options: CheckedOptions,
  figures: ServerFigures,
): Backstage {
  const { backend, payloadLimitBytes } = LocalClient.internals(client);
  const { provider, clock, completions, jobs } = backend;
  let openApi: Record<string, unknown> | undefined;
  return {
    client,
    clock,
    checkHealth: rarely(healthMs, async () => void (await client.get(probeId))),
    completions,
    jobs,
    owners: new SessionOwners(jobs),
    bindings: new JobBindings(provider),
    namesOf: async (ids) => (await provider.getInstances(ids)).map((record) => record?.name),
    payloadLimitBytes,
    openExport: (id, executionId) => openHistoryExport(provider, checkInstanceId(id), executionId),
    flows: options.flows,
    changes: new ChangeFeed(provider),
    figures,
    openApi: () => (openApi ??= makeOpenApi()),
    showStacks: options.showStacks,
    // Leaves time to say how far it came.
    bulkMs: options.limits.requestMs / 2,
  };
}

/** Does something at most once in a time; whoever asks meanwhile shares the outcome. */
function rarely(ms: number, work: () => Promise<void>): () => Promise<void> {
  let last: { readonly at: number; readonly outcome: Promise<void> } | undefined;
  return () => {
    const at = performance.now();
    if (last === undefined || at - last.at >= ms) last = { at, outcome: work() };
    return last.outcome;
  };
}
