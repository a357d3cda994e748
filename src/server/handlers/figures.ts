import type { Handlers } from '../call.ts';
import { toPrometheus } from '../prometheus.ts';
import type { figureRoutes } from '../routes/figures.ts';

// An id that a store is asked for to see whether it answers; nobody need have it.
const probeId = 'perdure-health';

/** The store in figures, and the server itself. */
export const figureHandlers: Handlers<typeof figureRoutes> = {
  async health(_, { client }) {
    await client.get(probeId);
    return { status: 'ok' };
  },
  queueDepths(_, { client }) {
    return client.queueDepths();
  },
  systemMetrics(_, { client }) {
    return client.systemMetrics();
  },
  async prometheus(_, { client, figures }) {
    const [system, queues] = await Promise.all([client.systemMetrics(), client.queueDepths()]);
    return toPrometheus({ system, queues, server: figures, nowMs: Date.now() });
  },
  async openApi(_, { openApi }) {
    return openApi();
  },
  watchChanges({ signal }, { changes }) {
    return changes.changes(signal);
  },
};
