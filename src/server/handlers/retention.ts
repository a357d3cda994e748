import { actorOf, type Handlers } from '../call.ts';
import type { retentionRoutes } from '../routes/retention.ts';

/** Looks after retention. */
export const retentionHandlers: Handlers<typeof retentionRoutes> = {
  getRetention(_, { client }) {
    return client.retention.status();
  },
  async pauseRetention({ body, caller }, { client }) {
    await client.retention.pause({ actor: actorOf(caller, body.actor) });
    return {};
  },
  async resumeRetention(_, { client }) {
    await client.retention.resume();
    return {};
  },
  async runRetention({ body, caller, signal }, { client }) {
    const { policies, dryRun, actor } = body;
    const report = await client.retention.run({
      policies,
      dryRun,
      actor: actorOf(caller, actor),
      signal,
    });
    return { report };
  },
};
