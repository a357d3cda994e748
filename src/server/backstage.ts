import { Client } from '../client/client.ts';
import { LocalJobs } from '../client/local-jobs.ts';
import type { Backstage } from './call.ts';
import { ChangeFeed } from './change-feed.ts';
import type { CheckedOptions } from './handler-options.ts';
import { makeOpenApi } from './open-api.ts';
import type { ServerFigures } from './server-figures.ts';
import { SessionOwners } from './session-owners.ts';

/** Puts together what stands behind the routes. */
export function makeBackstage(
  client: Client,
  options: CheckedOptions,
  figures: ServerFigures,
): Backstage {
  const { provider, clock, completions, payloadLimitBytes } = Client.internals(client);
  const jobs = new LocalJobs({ provider, clock, completions });
  let openApi: Record<string, unknown> | undefined;
  return {
    client,
    completions,
    jobs,
    owners: new SessionOwners(jobs),
    payloadLimitBytes,
    flows: options.flows,
    changes: new ChangeFeed(provider),
    figures,
    openApi: () => (openApi ??= makeOpenApi()),
    showStacks: options.showStacks,
    // Leaves time to say how far it came.
    bulkMs: options.limits.requestMs / 2,
  };
}
