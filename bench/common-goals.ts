import { ratio, type Goal } from './goal.ts';

/** The goals of both stores. */
export const commonGoals: readonly Goal[] = [
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
];
