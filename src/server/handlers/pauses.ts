import { actorOf } from '../access/tokens.ts';
import type { pauseRoutes } from '../routes/pauses.ts';
import type { Handlers } from '../server-context.ts';

export const pauseHandlers: Handlers<typeof pauseRoutes> = {
  pauseInstance({ params, body, caller }, { client }) {
    return client.pause(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
  resumeInstance({ params, body, caller }, { client }) {
    return client.resume(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
  async listPausedDefinitions(_, { client }) {
    return { items: [...(await client.pausedDefinitions())] };
  },
  pauseDefinition({ body, caller }, { client }) {
    const { name, kind, reason, actor } = body;
    return client.pause({ name, kind }, { reason, actor: actorOf(caller, actor) });
  },
  resumeDefinition({ body, caller }, { client }) {
    const { name, kind, reason, actor } = body;
    return client.resume({ name, kind }, { reason, actor: actorOf(caller, actor) });
  },
};
