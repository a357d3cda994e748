import type { workerRoutes } from '../routes/workers.ts';
import type { Handlers } from '../server-context.ts';

export const workerHandlers: Handlers<typeof workerRoutes> = {
  async listWorkers(_, { client }) {
    return { items: [...(await client.workers())] };
  },
  async listUnclaimedWork(_, { client }) {
    return { items: [...(await client.unclaimedWork())] };
  },
};
