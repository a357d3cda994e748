import { expect, it } from 'vitest';
import type { WorkerInfo } from '../../client/reading/workers.ts';
import { toPrometheus } from './prometheus.ts';
import { ServerMetrics } from './server-metrics.ts';

const depth = { ready: 0, delayed: 0, claimed: 0, oldestReadyAt: null, paused: 0 };
const worker: WorkerInfo = {
  id: 'a',
  name: 'a',
  status: 'live',
  host: 'h',
  pid: 1,
  buildId: 'b',
  orchestrations: [],
  activities: [],
  tasks: [],
  slots: { activities: 10, orchestrations: 1, inUse: 4 },
  leaked: 1,
  startedAt: 0,
  lastSeenAt: 0,
  ageMs: 0,
  heartbeatMs: 10_000,
};

it('toPrometheus() counts workers and escapes the names of unclaimed definitions', () => {
  const text = toPrometheus({
    system: {
      instances: {
        pending: 0,
        running: 0,
        canceling: 0,
        completed: 0,
        failed: 0,
        canceled: 0,
        terminated: 0,
        skipped: 0,
        expired: 0,
      },
      finishedExecutions: 0,
      storageBytes: 0,
      reclaimableBytes: 0,
      pendingReclaims: 0,
      pausedInstances: 0,
      pausedDefinitions: 0,
    },
    queues: { orchestrations: depth, activities: depth, tasks: depth, messages: 0 },
    workers: [worker, { ...worker, id: 'b', status: 'stale' }],
    blocked: 0,
    limits: [
      {
        kind: 'task',
        name: 'sync',
        effective: { global: 5, perKey: 2 },
        declared: {},
        running: 4,
        waiting: 1_000,
      },
      { kind: 'activity', name: 'pay', effective: {}, declared: {}, running: 0, waiting: 0 },
    ],
    retention: { paused: null, lastReport: null, policies: null, fullWalkAt: null },
    unclaimed: [
      { kind: 'orchestration', name: 'order', version: '2', dueForMs: 12_500 },
      { kind: 'task', name: 'a"} 1\nevil{x="\\', dueForMs: 10_000 },
    ],
    server: new ServerMetrics({}),
    runs: '',
    nowMs: 0,
  });
  const lines = text
    .split('\n')
    .filter((line) => /^perdure_(limit|worker|leaked|unclaimed)/.test(line));
  expect(lines).toEqual([
    'perdure_limit_running{kind="task",name="sync"} 4',
    'perdure_limit_running{kind="activity",name="pay"} 0',
    'perdure_limit_max{kind="task",name="sync"} 5',
    'perdure_limit_waiting{kind="task",name="sync"} 1000',
    'perdure_limit_waiting{kind="activity",name="pay"} 0',
    'perdure_workers{status="live"} 1',
    'perdure_workers{status="stale"} 1',
    'perdure_worker_slots{state="used"} 4',
    'perdure_worker_slots{state="free"} 6',
    'perdure_leaked_handlers 1',
    'perdure_unclaimed_definitions 2',
    'perdure_unclaimed_work_seconds{kind="orchestration",name="order",version="2"} 12.5',
    'perdure_unclaimed_work_seconds{kind="task",name="a\\"} 1\\nevil{x=\\"\\\\"} 10',
  ]);
});
