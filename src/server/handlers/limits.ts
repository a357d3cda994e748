import { actorOf } from '../access/tokens.ts';
import type { limitRoutes } from '../routes/limits.ts';
import type { Handlers } from '../server-context.ts';

export const limitHandlers: Handlers<typeof limitRoutes> = {
  async listLimits({ query }, { client }) {
    const { items, ...page } = await client.limits.list(query);
    return { items: [...items], ...page };
  },
  async getLimits({ params, query }, { client }) {
    return { limits: (await client.limits.get({ ...params, ...query })) ?? null };
  },
  setLimits({ params, body, caller }, { client }) {
    const { kind, reason, actor, ...change } = body;
    const note = { reason, actor: actorOf(caller, actor) };
    return client.limits.set({ ...params, kind }, change, note);
  },
  resetLimits({ params, body, caller }, { client }) {
    const { kind, reason, actor } = body;
    return client.limits.reset({ ...params, kind }, { reason, actor: actorOf(caller, actor) });
  },
  async listLimitKeys({ params, query: { kind, ...query } }, { client }) {
    const { items, ...page } = await client.limits.keys({ ...params, kind }, query);
    return { items: [...items], ...page };
  },
};
