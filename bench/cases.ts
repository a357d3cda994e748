import type { Benchmark } from './benchmark.ts';
import { cancelAcrossProcesses, cancelLatency } from './cases/cancel-latency.ts';
import { claimsFromBacklog } from './cases/claims.ts';
import { closedJobs } from './cases/closed-jobs.ts';
import { coldStart } from './cases/cold-start.ts';
import { orchestrationCost, taskCost } from './cases/cost.ts';
import { dashboardInBrowser } from './cases/dashboard.ts';
import { deleteFamily, deletionUnderLoad } from './cases/deletion.ts';
import { fanOutThroughput } from './cases/fan-out.ts';
import { flowMap, flowOverhead } from './cases/flows.ts';
import { growth } from './cases/growth.ts';
import { helloAcross } from './cases/hello-across.ts';
import { helloLatency, helloThroughput } from './cases/hello.ts';
import { idleCost } from './cases/idle.ts';
import { limitedClaims, limitedTasks } from './cases/limits.ts';
import { listPages } from './cases/lists.ts';
import { massCancel } from './cases/mass-cancel.ts';
import { processMemory } from './cases/process-memory.ts';
import { rawPostgresHello, rawPostgresSteps } from './cases/raw-postgres.ts';
import { rawHello, rawInserts, rawSteps } from './cases/raw.ts';
import { startsAfterCancel } from './cases/starts-after-cancel.ts';
import { payloads } from './cases/payloads.ts';
import { inlineStepRate, sequentialInlineSteps, sequentialSteps } from './cases/steps.ts';
import { taskThroughput, taskThroughputOf500 } from './cases/tasks.ts';
import { coldList } from './cases/cold-list.ts';
import { telemetryOverhead } from './cases/telemetry.ts';
import { timerLateness } from './cases/timers.ts';
import { warmMemory } from './cases/warm-memory.ts';
import { onDbos, onPeer } from './peers.ts';
import { onEach } from './store-kind.ts';
import type { ProviderName } from './stores.ts';

export interface Case {
  readonly title: string;
  readonly run: Benchmark;
  /** Starts with a store that holds finished instances. */
  readonly onFinished?: boolean;
  /** Runs in the first round only: its figures are medians already. */
  readonly once?: boolean;
  /** Omitted in quick runs. */
  readonly slow?: boolean;
  /** Runs on this provider only. */
  readonly only?: ProviderName;
  /** Another system, measured with `--peers` on PostgreSQL. */
  readonly peer?: boolean;
  /** The name of a case: `--only` with that name also runs this one. A peer needs `--peers`, too. */
  readonly group?: string;
}

const rawStepsOf = (count: number): Benchmark =>
  onEach({ sqlite: rawSteps(count), postgres: rawPostgresSteps(count) });

const dbosStepsOf = (count: number): Benchmark => onDbos('steps', { better: 'less', count });

/** Every case by the name that `--only` accepts. A baseline or a peer follows the case it is compared with. */
export const cases = {
  rawHello: {
    title: 'raw SQL, 7 transactions per hello',
    run: onEach({ sqlite: rawHello, postgres: rawPostgresHello }),
  },
  hello: { title: 'hello, 64 concurrently', run: helloThroughput },
  dbosHello: {
    title: 'hello, 64 concurrently, DBOS',
    run: onDbos('hello', { better: 'more' }),
    peer: true,
  },
  helloOnFinished: {
    title: 'hello, with 100,000 finished instances in the store',
    run: helloThroughput,
    onFinished: true,
  },
  helloAcross: {
    title: 'hello, a client and 1, 2, 4 worker processes',
    run: helloAcross,
    only: 'postgres',
  },
  latency: { title: 'hello, one at a time', run: helloLatency },
  coldStart: {
    title: 'processes from start to import and first result',
    run: coldStart,
    once: true,
  },
  dbosLatency: {
    title: 'hello, one at a time, DBOS',
    run: onDbos('latency', { better: 'less' }),
    peer: true,
  },
  payloads: {
    title: 'hellos that return 1.3 KB and 133 KB',
    run: payloads,
    only: 'sqlite',
  },
  fanOut: { title: '5 activities of 10 ms, 20 instances concurrently', run: fanOutThroughput },
  rawSteps100: { title: 'raw SQL, 100 steps of 2 transactions', run: rawStepsOf(100) },
  steps100: { title: '100 activities in sequence', run: sequentialSteps(100) },
  dbosSteps100: { title: '100 steps in sequence, DBOS', run: dbosStepsOf(100), peer: true },
  rawSteps1000: { title: 'raw SQL, 1,000 steps of 2 transactions', run: rawStepsOf(1_000) },
  steps1000: { title: '1,000 activities in sequence', run: sequentialSteps(1_000) },
  dbosSteps1000: { title: '1,000 steps in sequence, DBOS', run: dbosStepsOf(1_000), peer: true },
  rawSteps10000: {
    title: 'raw SQL, 10,000 steps of 2 transactions',
    run: rawStepsOf(10_000),
    slow: true,
  },
  steps10000: {
    title: '10,000 activities in sequence',
    run: sequentialSteps(10_000),
    slow: true,
  },
  inlineSteps100: { title: '100 steps of ctx.run() in sequence', run: sequentialInlineSteps(100) },
  inlineSteps10000: {
    title: '10,000 steps of ctx.run() in sequence',
    run: sequentialInlineSteps(10_000),
    slow: true,
  },
  rawInserts10000: {
    title: 'raw SQL, 10,000 inserts, one transaction each',
    run: rawInserts(10_000),
    only: 'sqlite',
    slow: true,
  },
  inlineStepRate: { title: '64 orchestrations of 100 steps of ctx.run()', run: inlineStepRate },
  dbosStepRate: {
    title: '64 workflows of 100 steps, DBOS',
    run: onDbos('stepRate', { better: 'more' }),
    peer: true,
  },
  dbosSteps10000: {
    title: '10,000 steps in sequence, DBOS',
    run: dbosStepsOf(10_000),
    slow: true,
    peer: true,
  },
  tasks: { title: '10,000 empty tasks, default options', run: taskThroughput },
  tasks500: {
    title: '10,000 empty tasks, 500 at a time',
    run: taskThroughputOf500,
    group: 'tasks',
  },
  pgBossTasks: {
    title: '10,000 empty jobs, pg-boss',
    run: onPeer('pg-boss', 'tasks'),
    peer: true,
    group: 'tasks',
  },
  graphileTasks: {
    title: '10,000 empty jobs, graphile-worker',
    run: onPeer('graphile-worker', 'tasks'),
    peer: true,
    group: 'tasks',
  },
  claims: { title: '10 tasks claimed from a backlog', run: claimsFromBacklog },
  limits: { title: 'tasks with limits', run: limitedTasks },
  dbosLimits: {
    title: 'workflows in a queue with limits, DBOS',
    run: onPeer('dbos-queues', 'limits'),
    peer: true,
    group: 'limits',
  },
  pgBossLimits: {
    title: 'empty jobs of groups, pg-boss',
    run: onPeer('pg-boss', 'limits'),
    peer: true,
    group: 'limits',
  },
  graphileLimits: {
    title: 'empty jobs of named queues, graphile-worker',
    run: onPeer('graphile-worker', 'limits'),
    peer: true,
    group: 'limits',
  },
  limitedClaims: {
    title: '10 limited tasks claimed from a backlog',
    run: limitedClaims,
    group: 'limits',
  },
  timers: { title: '2,000 timers of 1 s', run: timerLateness },
  idle: { title: 'idle worker', run: idleCost },
  memory: { title: 'warm instances', run: warmMemory },
  processMemory: {
    title: 'worker processes: hello, and 1,000,000 pending timers',
    run: processMemory,
    once: true,
    slow: true,
  },
  growth: {
    title: '1,000,000 finished instances, 300,000 waiting; large instances',
    run: growth,
    once: true,
    slow: true,
  },
  cost: {
    title: 'cost of a hello and of a step',
    run: orchestrationCost,
    only: 'postgres',
  },
  taskCost: { title: 'cost of a task', run: taskCost, only: 'postgres' },
  cancel: { title: 'cancel, one at a time', run: cancelLatency },
  cancelAcross: { title: 'cancel, from another process', run: cancelAcrossProcesses },
  startsAfterCancel: {
    title: 'starts after a cancel from another process, 100 CPU-bound handlers',
    run: startsAfterCancel,
  },
  closedJobs: { title: '1,000 jobs closed over HTTP, all slots taken', run: closedJobs },
  deletion: {
    title: '20,000 instances of 10 events deleted under a load of hellos',
    run: deletionUnderLoad,
  },
  deleteFamily: { title: 'a root with 2,000 children deleted', run: deleteFamily },
  flowOverhead: { title: 'a flow of 20 steps, compared with an orchestration', run: flowOverhead },
  flowMap: { title: 'a flow with a map of 10,000 items', run: flowMap },
  massCancel: { title: '2,000 activities canceled by one ack', run: massCancel },
  lists: {
    title: 'pages of every filter and pair of filters, 1,000,000 instances',
    run: listPages,
  },
  telemetry: {
    title: 'hello without telemetry, and with 10 % of the traces sampled',
    run: telemetryOverhead,
  },
  coldList: { title: 'perdure list of 1,000 instances, in a new process', run: coldList },
  dashboard: {
    title: 'the dashboard in Chromium, 100,000 instances',
    run: dashboardInBrowser,
    once: true,
  },
} as const satisfies Readonly<Record<string, Case>>;

export type CaseName = keyof typeof cases;

export const caseNames = Object.keys(cases) as readonly CaseName[];

export function isCaseName(name: string): name is CaseName {
  return Object.hasOwn(cases, name);
}

/** The selection of a run. */
export interface CaseChoice {
  readonly provider: ProviderName;
  readonly quick: boolean;
  readonly peers: boolean;
  /** Default: all cases that match the rest. */
  readonly only: readonly string[] | undefined;
}

/** The cases of a run, in their order. */
export function chooseCases({ provider, quick, peers, only }: CaseChoice): readonly CaseName[] {
  return caseNames.filter((name) => {
    const chosen: Case = cases[name];
    const { slow = false, peer = false, group = name } = chosen;
    if ((chosen.only ?? provider) !== provider || (peer && provider !== 'postgres')) return false;
    if (only?.includes(name) === true) return true;
    if (only !== undefined) return only.includes(group) && (peers || !peer);
    return !(quick && slow) && (peers || !peer);
  });
}
