import { ratio, type Goal } from './goal.ts';
import { commonGoals } from './common-goals.ts';

/** The goals on SQLite. */
export const sqliteGoals: readonly Goal[] = [
  {
    what: 'hello: rate against raw SQLite',
    figure: ({ hello, rawHello }) => ratio(hello?.['perSecond'], rawHello?.['perSecond']),
    unit: '×',
    atLeast: 4,
  },
  {
    what: 'hello: rate',
    figure: ({ hello }) => hello?.['perSecond'],
    unit: '/s',
    target: 12_000,
  },
  {
    what: 'hello: rate in the first second',
    figure: ({ hello }) => hello?.['coldPerSecond'],
    unit: '/s',
    target: 8_000,
  },
  {
    // 10 % is the noise between two identical runs.
    what: 'hello: with 100,000 finished instances, against an empty file',
    figure: ({ hello, helloOnFinished }) =>
      ratio(helloOnFinished?.['perSecond'], hello?.['perSecond']),
    unit: '×',
    atLeast: 0.9,
    target: 1,
  },
  {
    what: 'latency: start to result, p50',
    figure: ({ latency }) => latency?.['p50Ms'],
    unit: 'ms',
    atMost: 1,
    target: 0.9,
  },
  {
    what: 'latency: start to result, p50 of the first 1,000',
    figure: ({ latency }) => latency?.['coldP50Ms'],
    unit: 'ms',
    atMost: 1.2,
  },
  {
    what: 'steps: time per step of 10,000',
    figure: ({ steps10000 }) => steps10000?.['msPerStep'],
    unit: 'ms',
    atMost: 0.35,
  },
  {
    what: 'cold start: first result, from the start of the process',
    figure: ({ coldStart }) => coldStart?.['resultMs'],
    unit: 'ms',
    atMost: 120,
  },
  {
    what: 'fan-out: rate',
    figure: ({ fanOut }) => fanOut?.['perSecond'],
    unit: '/s',
    atLeast: 600,
  },
  {
    what: 'steps: time per step, 10,000 against 100',
    figure: ({ steps10000, steps100 }) => ratio(steps10000?.['msPerStep'], steps100?.['msPerStep']),
    unit: '×',
    atMost: 1.3,
  },
  {
    what: 'steps: time per step of 10,000 against raw SQLite',
    figure: ({ steps10000, rawSteps10000 }) =>
      ratio(steps10000?.['msPerStep'], rawSteps10000?.['msPerStep']),
    unit: '×',
    atMost: 1,
    target: 0.5,
  },
  {
    what: 'steps of ctx.run(): time per step of 10,000 against activities',
    figure: ({ inlineSteps10000, steps10000 }) =>
      ratio(inlineSteps10000?.['msPerStep'], steps10000?.['msPerStep']),
    unit: '×',
    atMost: 0.6,
  },
  {
    what: 'steps of ctx.run(): time per step of 10,000 against one insert and its flush',
    figure: ({ inlineSteps10000, rawInserts10000 }) =>
      ratio(inlineSteps10000?.['msPerStep'], rawInserts10000?.['msPerStep']),
    unit: '×',
    atMost: 1.25,
  },
  {
    what: 'payloads of 133 KB: copies in the file',
    figure: ({ payloads }) => payloads?.['largeCopies'],
    unit: '',
    atMost: 2.2,
  },
  {
    what: 'payloads of 1.3 KB: copies in the file, with all other data',
    figure: ({ payloads }) => payloads?.['smallCopies'],
    unit: '',
    atMost: 4,
  },
  {
    what: 'payloads of 133 KB: rate',
    figure: ({ payloads }) => payloads?.['largePerSecond'],
    unit: '/s',
    target: 280,
  },
  {
    what: 'timers: delay, p99',
    figure: ({ timers }) => timers?.['lateP99Ms'],
    unit: 'ms',
    atMost: 50,
  },
  {
    what: 'idle: CPU share of one core',
    figure: ({ idle }) => idle?.['cpuPercent'],
    unit: '%',
    atMost: 1,
  },
  {
    what: 'cancel: call to signal, p50',
    figure: ({ cancel }) => cancel?.['signalP50Ms'],
    unit: 'ms',
    atMost: 5,
  },
  {
    what: 'cancel: call to signal, p99',
    figure: ({ cancel }) => cancel?.['signalP99Ms'],
    unit: 'ms',
    atMost: 50,
  },
  {
    what: 'cancel: call to canceled, p50',
    figure: ({ cancel }) => cancel?.['canceledP50Ms'],
    unit: 'ms',
    atMost: 5,
  },
  {
    what: 'cancel: call to canceled, p99',
    figure: ({ cancel }) => cancel?.['canceledP99Ms'],
    unit: 'ms',
    atMost: 50,
  },
  ...commonGoals,
  {
    what: 'tasks: a claim from a backlog of 300,000, against one of 1,000',
    figure: ({ claims }) => claims?.['ratio'],
    unit: '×',
    atMost: 1.5,
  },
];
