import { ratio, type Goal } from './goal.ts';

/** The goals of both stores. */
export const commonGoals: readonly Goal[] = [
  {
    what: 'telemetry with 10 % of the traces sampled: cost of a hello, against none',
    figure: ({ telemetry }) => telemetry?.['cost'],
    unit: '',
    atMost: 0.1,
  },
  {
    what: 'cancel across processes: call to signal, p99',
    figure: ({ cancelAcross }) => cancelAcross?.['signalP99Ms'],
    unit: 'ms',
    atMost: 250,
  },
  {
    what: 'cancel across processes: call to canceled, p99',
    figure: ({ cancelAcross }) => cancelAcross?.['canceledP99Ms'],
    unit: 'ms',
    atMost: 250,
  },
  {
    what: 'job closed over HTTP, all slots taken: close to signal, p99',
    figure: ({ closedJobs }) => closedJobs?.['signalP99Ms'],
    unit: 'ms',
    atMost: 100,
  },
  {
    what: '1,000 jobs closed concurrently over HTTP: close to signal, p99',
    figure: ({ closedJobs }) => closedJobs?.['burstP99Ms'],
    unit: 'ms',
    atMost: 100,
  },
  {
    what: 'deletion: p99 of a concurrent load, against the load alone',
    figure: ({ deletion }) => ratio(deletion?.['besideP99Ms'], deletion?.['aloneP99Ms']),
    unit: '×',
    atMost: 2,
  },
  {
    what: 'tree deletion: partial states visible to a reader',
    figure: ({ deleteFamily }) => deleteFamily?.['statesBetween'],
    unit: '',
    atMost: 0,
  },
  {
    what: 'mass cancel: 2,000 queued, against enqueueing them',
    figure: ({ massCancel }) => massCancel?.['queuedRatio'],
    unit: '×',
    atMost: 4,
  },
  {
    what: 'mass cancel: 2,000 running, against enqueueing them',
    figure: ({ massCancel }) => massCancel?.['runningRatio'],
    unit: '×',
    atMost: 4,
  },
  {
    // Events and messages are written in batches of hundreds. One statement per row would be 1,980 more.
    what: 'mass cancel: extra statements for 2,000, compared with 20',
    figure: ({ massCancel }) => massCancel?.['moreStatements'],
    unit: '',
    atMost: 10,
  },
  {
    what: 'dashboard: JavaScript and CSS of the first load, gzip (A1)',
    figure: ({ dashboard }) => dashboard?.['firstLoadKB'],
    unit: 'kB',
    atMost: 60,
  },
  {
    what: 'dashboard: JavaScript and CSS in all, gzip (A1)',
    figure: ({ dashboard }) => dashboard?.['allChunksKB'],
    unit: 'kB',
    atMost: 150,
  },
  {
    what: 'dashboard: cold load to a usable list (A2)',
    figure: ({ dashboard }) => dashboard?.['loadMs'],
    unit: 'ms',
    atMost: 500,
  },
  {
    what: 'dashboard: cold load, processor 4 × slower (A2)',
    figure: ({ dashboard }) => dashboard?.['throttledLoadMs'],
    unit: 'ms',
    atMost: 1_500,
  },
  {
    what: 'dashboard: rows in the DOM while scrolling (A4)',
    figure: ({ dashboard }) => dashboard?.['scrollMaxRows'],
    unit: 'rows',
    atMost: 80,
  },
  {
    what: 'dashboard: longest frame while scrolling (A4)',
    figure: ({ dashboard }) => dashboard?.['scrollLongestFrameMs'],
    unit: 'ms',
    atMost: 50,
  },
  {
    what: 'lists: slowest p95 of a page, of all filters and pairs',
    figure: ({ lists }) => lists?.['slowestP95Ms'],
    unit: 'ms',
    atMost: 50,
  },
  {
    what: 'lists: longest delay of the event loop',
    figure: ({ lists }) => lists?.['longestLoopDelayMs'],
    unit: 'ms',
    atMost: 50,
  },
  {
    what: 'dashboard: change shown, same process, p95 (A6)',
    figure: ({ dashboard }) => dashboard?.['sameProcessP95Ms'],
    unit: 'ms',
    atMost: 500,
  },
  {
    what: 'dashboard: change shown, other process, p95 (A6)',
    figure: ({ dashboard }) => dashboard?.['otherProcessP95Ms'],
    unit: 'ms',
    atMost: 1_200,
  },
  {
    what: 'dashboard: first rows of 50,000 events (A8)',
    figure: ({ dashboard }) => dashboard?.['historyMs'],
    unit: 'ms',
    atMost: 500,
  },
  {
    what: 'dashboard: timeline of 50,000 events (A8)',
    figure: ({ dashboard }) => dashboard?.['timelineMs'],
    unit: 'ms',
    atMost: 3_000,
  },
  {
    what: 'dashboard: longest frame in 50,000 events (A8)',
    figure: ({ dashboard }) => dashboard?.['historyLongestFrameMs'],
    unit: 'ms',
    atMost: 50,
  },
  {
    what: 'dashboard: payload of 2 MiB shown (A9)',
    figure: ({ dashboard }) => dashboard?.['payloadMs'],
    unit: 'ms',
    atMost: 300,
  },
];
