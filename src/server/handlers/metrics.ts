import type { Handlers } from '../server-context.ts';
import { toPrometheus } from '../monitoring/prometheus.ts';
import type { metricRoutes } from '../routes/metrics.ts';
import { watchInstances } from './views.ts';

export const metricHandlers: Handlers<typeof metricRoutes> = {
  async health(_, { checkHealth }) {
    await checkHealth();
    return { status: 'ok' };
  },
  queueDepths(_, { client }) {
    return client.queueDepths();
  },
  systemMetrics(_, { client }) {
    return client.systemMetrics();
  },
  async prometheus(_, { client, clock, metrics: figures }) {
    const [system, queues] = await Promise.all([client.systemMetrics(), client.queueDepths()]);
    return toPrometheus({ system, queues, server: figures, nowMs: clock.now() });
  },
  async openApi(_, { openApi }) {
    return openApi();
  },
  watchChanges({ query, signal }, context) {
    if (query.ids !== undefined) return watchInstances(query.ids, signal, context);
    return context.changes.changes(signal);
  },
};
