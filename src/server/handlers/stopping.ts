import { actorOf, type Handlers } from '../call.ts';
import type { stoppingRoutes } from '../routes/stopping.ts';

/** Stops instances. */
export const stoppingHandlers: Handlers<typeof stoppingRoutes> = {
  cancelInstance({ params, body, caller }, { client }) {
    return client.cancel(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
  terminateInstance({ params, body, caller }, { client }) {
    return client.terminate(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
};
