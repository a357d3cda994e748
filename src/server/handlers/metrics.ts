import { LocalClient } from '../../client/local-client.ts';
import { findAttention } from '../../client/explaining/find-attention.ts';
import { maxMetricNames } from '../../model/metrics/instruments.ts';
import { allows } from '../access/allowed-definitions.ts';
import type { Handlers } from '../server-context.ts';
import { toPrometheus } from '../monitoring/prometheus.ts';
import type { metricRoutes } from '../routes/metrics.ts';
import { watchInstances } from './views.ts';

/** The store counts blocked instances up to this number. */
const maxBlocked = 10_000;

export const metricHandlers: Handlers<typeof metricRoutes> = {
  async health(_, { checkHealth }) {
    await checkHealth();
    return { status: 'ok' };
  },
  async live() {
    return { status: 'ok' };
  },
  async ready(_, { checkHealth }) {
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
    const [system, queues, workers, unclaimed, blocked, limits, retention] = await Promise.all([
      client.systemMetrics(),
      client.queueDepths(),
      client.workers(),
      client.unclaimedWork(),
      client.count({ blocked: true }, { cap: maxBlocked }),
      client.limits.list({ limit: maxMetricNames }),
      client.retention.status(),
    ]);
    const counted = { blocked: blocked.count, limits: limits.items };
    const store = { system, queues, workers, unclaimed, ...counted, retention };
    const { metrics } = LocalClient.internals(client);
    return toPrometheus({ ...store, server: figures, runs: metrics(), nowMs: clock.now() });
  },
  async openApi(_, { openApi }) {
    return openApi();
  },
  watchChanges({ query, signal }, context) {
    if (query.ids !== undefined) return watchInstances(query.ids, signal, context);
    return context.changes.changes(signal);
  },
};
