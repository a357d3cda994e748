import { ratio, type Goal } from './goal.ts';
import { commonGoals } from './common-goals.ts';

/** The goals on PostgreSQL. Goals against peers need `--peers` in the same run. */
export const postgresGoals: readonly Goal[] = [
  {
    what: 'hello: rate against raw PostgreSQL',
    figure: ({ hello, rawHello }) => ratio(hello?.['perSecond'], rawHello?.['perSecond']),
    unit: '×',
    atLeast: 4,
  },
  {
    what: 'hello: rate against DBOS',
    figure: ({ hello, dbosHello }) => ratio(hello?.['perSecond'], dbosHello?.['perSecond']),
    unit: '×',
    atLeast: 5,
  },
  {
    what: 'hello: rate',
    figure: ({ hello }) => hello?.['perSecond'],
    unit: '/s',
    target: 4_000,
  },
  {
    what: 'hello: with 100,000 finished instances, against an empty database',
    figure: ({ hello, helloOnFinished }) =>
      ratio(helloOnFinished?.['perSecond'], hello?.['perSecond']),
    unit: '×',
    atLeast: 0.9,
    target: 1,
  },
  {
    what: 'latency: p50 against DBOS',
    figure: ({ latency, dbosLatency }) => ratio(latency?.['p50Ms'], dbosLatency?.['p50Ms']),
    unit: '×',
    atMost: 0.6,
  },
  {
    what: 'steps: time per step, 10,000 against 100',
    figure: ({ steps10000, steps100 }) => ratio(steps10000?.['msPerStep'], steps100?.['msPerStep']),
    unit: '×',
    atMost: 1.3,
  },
  {
    what: 'steps: time per step of 100 against DBOS',
    figure: ({ steps100, dbosSteps100 }) =>
      ratio(steps100?.['msPerStep'], dbosSteps100?.['msPerStep']),
    unit: '×',
    atMost: 1,
  },
  {
    what: 'steps: time per step of 1,000 against DBOS',
    figure: ({ steps1000, dbosSteps1000 }) =>
      ratio(steps1000?.['msPerStep'], dbosSteps1000?.['msPerStep']),
    unit: '×',
    atMost: 1,
  },
  {
    what: 'steps: time per step of 10,000 against DBOS',
    figure: ({ steps10000, dbosSteps10000 }) =>
      ratio(steps10000?.['msPerStep'], dbosSteps10000?.['msPerStep']),
    unit: '×',
    atMost: 1,
  },
  {
    what: 'steps of ctx.run(): rate against DBOS',
    figure: ({ inlineStepRate, dbosStepRate }) =>
      ratio(inlineStepRate?.['perSecond'], dbosStepRate?.['perSecond']),
    unit: '×',
    atLeast: 3,
  },
  {
    what: 'tasks: enqueued and run with default options, against pg-boss',
    figure: ({ tasks, pgBossTasks }) => ratio(tasks?.['perSecond'], pgBossTasks?.['perSecond']),
    unit: '×',
    atLeast: 1,
  },
  {
    what: 'tasks: enqueued and run with default options, against graphile-worker',
    figure: ({ tasks, graphileTasks }) => ratio(tasks?.['perSecond'], graphileTasks?.['perSecond']),
    unit: '×',
    atLeast: 1,
    target: 1.2,
  },
  {
    what: 'tasks: a claim from a backlog of 300,000, against one of 1,000',
    figure: ({ claims }) => claims?.['ratio'],
    unit: '×',
    atMost: 1.5,
  },
  {
    what: 'idle: queries per process',
    figure: ({ idle }) => idle?.['queriesPerSecond'],
    unit: '/s',
    atMost: 1,
  },
  ...commonGoals,
];
