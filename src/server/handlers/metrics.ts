import { findAttention } from '../../client/explaining/find-attention.ts';
import { allows } from '../access/allowed-definitions.ts';
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
  async listQueues(_, { queues }) {
    return { items: [...(await queues())] };
  },
  async getAttention({ caller }, { attention }) {
    const reads = await attention();
    return findAttention(reads, {
      maySee: (name) => allows(caller, name),
      seesWorkers: caller.definitions === undefined,
    });
  },
  systemMetrics(_, { client }) {
    return client.systemMetrics();
  },
  async prometheus(_, { client, clock, metrics: figures }) {
    const [system, queues, workers, unclaimed] = await Promise.all([
      client.systemMetrics(),
      client.queueDepths(),
      client.workers(),
      client.unclaimedWork(),
    ]);
    const nowMs = clock.now();
    return toPrometheus({ system, queues, workers, unclaimed, server: figures, nowMs });
  },
  async openApi(_, { openApi }) {
    return openApi();
  },
  watchChanges({ query, signal }, context) {
    if (query.ids !== undefined) return watchInstances(query.ids, signal, context);
    return context.changes.changes(signal);
  },
};
