import type { seriesRoutes } from '../routes/series.ts';
import type { Handlers } from '../server-context.ts';

export const seriesHandlers: Handlers<typeof seriesRoutes> = {
  async getSeries({ query }, { client }) {
    return { items: [...(await client.series(query))] };
  },
};
