/**
 * The race list: cancel × complete × fail × retry × terminate × delete × continue-as-new. Each pair commits in both
 * orders, with nothing between the two commits.
 */
import { describe, expect, it, onTestFinished } from 'vitest';
import { RaceHarness, type Act, type RaceOutcome } from './helpers/race-harness.ts';

type Expected = Partial<RaceOutcome>;

const over = { executions: 1, terminalEvents: 1, attempts: { first: 1, second: 1 } } as const;
const completed = (output: string) =>
  ({ ...over, status: 'completed', output, lastEvents: ['executionCompleted'] }) as const;
const failed = { ...over, status: 'failed', lastEvents: ['executionFailed'] } as const;
const canceled = {
  ...over,
  status: 'canceled',
  isCancelRequested: true,
  lastEvents: ['executionCanceled'],
} as const;
const terminated = { ...over, status: 'terminated', lastEvents: ['executionTerminated'] } as const;
const inNext = (end: Expected, last: string) =>
  ({
    ...end,
    executions: 2,
    terminalEvents: 2,
    lastEvents: ['executionContinuedAsNew', last],
  }) as const;
const next = { ...inNext(completed('next'), 'executionCompleted'), isCancelRequested: false };
const asked = { isCancelRequested: true };
const unasked = { isCancelRequested: false };

const deletedWhole = { instancesDeleted: 1, executionsDeleted: 1 };
const gone = {
  status: 'gone',
  remainingRows: [],
  lastEvents: [],
  attempts: { first: 1, second: 1 },
  results: { delete: deletedWhole },
} as const;
const missing = { found: false, changed: false, status: null };

const races: readonly (readonly [first: Act, second: Act, expected: Expected])[] = [
  // Both reach the code in one turn: work that ended before the cancel counts.
  ['cancel', 'complete', canceled],
  ['complete', 'cancel', { ...completed('first'), ...asked }],
  ['cancel', 'fail', canceled],
  ['fail', 'cancel', { ...failed, ...asked }],
  ['cancel', 'retry', canceled],
  ['retry', 'cancel', canceled],
  ['cancel', 'terminate', { ...terminated, ...asked }],
  ['terminate', 'cancel', { ...terminated, ...unasked }],
  ['cancel', 'continue as new', inNext(canceled, 'executionCanceled')],
  ['continue as new', 'cancel', inNext(canceled, 'executionCanceled')],
  ['complete', 'fail', { ...completed('first'), ...unasked }],
  ['fail', 'complete', { ...failed, ...unasked }],
  ['complete', 'retry', completed('first')],
  ['retry', 'complete', completed('first')],
  // The completion had not reached the code when the instance ended.
  ['complete', 'terminate', terminated],
  ['terminate', 'complete', terminated],
  ['complete', 'continue as new', next],
  ['continue as new', 'complete', next],
  ['fail', 'retry', failed],
  ['retry', 'fail', failed],
  ['fail', 'terminate', terminated],
  ['terminate', 'fail', terminated],
  ['fail', 'continue as new', next],
  ['continue as new', 'fail', next],
  ['retry', 'terminate', terminated],
  ['terminate', 'retry', terminated],
  ['retry', 'continue as new', next],
  ['continue as new', 'retry', next],
  ['terminate', 'continue as new', terminated],
  ['continue as new', 'terminate', inNext(terminated, 'executionTerminated')],
  ['delete', 'cancel', { ...gone, results: { delete: deletedWhole, cancel: missing } }],
  ['cancel', 'delete', gone],
  ['delete', 'complete', gone],
  ['complete', 'delete', gone],
  ['delete', 'fail', gone],
  ['fail', 'delete', gone],
  ['delete', 'retry', gone],
  ['retry', 'delete', gone],
  ['delete', 'terminate', { ...gone, results: { delete: deletedWhole, terminate: missing } }],
  ['terminate', 'delete', gone],
  ['delete', 'continue as new', gone],
  [
    'continue as new',
    'delete',
    { ...gone, results: { delete: { ...deletedWhole, executionsDeleted: 2 } } },
  ],
];

async function openHarness(fastPaths: boolean): Promise<RaceHarness> {
  const harness = await RaceHarness.open(fastPaths);
  onTestFinished(() => harness.close());
  return harness;
}

async function race(first: Act, second: Act, fastPaths: boolean): Promise<RaceOutcome> {
  const harness = await openHarness(fastPaths);
  await harness.commitInOrder(first, second);
  return harness.finish();
}

describe('race of two consecutive commits', () => {
  it.each(races)('%s commits before %s', async (first, second, expected) => {
    expect(await race(first, second, false)).toMatchObject(expected);
  });

  it('the race list contains every pair of acts in both orders', () => {
    const acts = new Set(races.map(([first]) => first));
    expect(new Set(races.map(([first, second]) => `${first}/${second}`)).size).toBe(
      acts.size * (acts.size - 1),
    );
  });
});

describe('race with a fast-path turn that acks its activity in the same commit', () => {
  it.each([
    // The fast-path turn is rejected and the activity is acked separately, after the cancel reached the code.
    ['cancel', 'complete', canceled],
    ['complete', 'cancel', { ...completed('first'), ...unasked }],
    ['cancel', 'fail', canceled],
    ['fail', 'cancel', { ...failed, ...unasked }],
    ['terminate', 'complete', terminated],
    ['complete', 'terminate', { ...completed('first') }],
    ['terminate', 'fail', terminated],
    ['fail', 'terminate', failed],
    ['delete', 'complete', gone],
    ['complete', 'delete', gone],
    ['delete', 'fail', gone],
    ['fail', 'delete', gone],
  ] as const)('%s commits before %s in the fast path', async (first, second, expected) => {
    expect(await race(first, second, true)).toMatchObject(expected);
  });
});

/** After these, only the other activity is running. */
const settling: ReadonlySet<Act> = new Set(['complete', 'fail', 'retry']);

/** Whether an act aborts the handlers immediately: cancels do, and acts that end the execution in the same commit. */
function isAbortedImmediately(act: Act, fastPaths: boolean): boolean {
  if (act === 'complete' || act === 'fail') return fastPaths;
  return act === 'cancel' || act === 'terminate' || act === 'continue as new';
}

describe.each([true, false])('reuse of a deleted id after a race (fast paths: %s)', (fastPaths) => {
  const others = ['cancel', 'complete', 'fail', 'retry', 'terminate', 'continue as new'] as const;
  const pairs = others.flatMap((act) => [['delete', act] as const, [act, 'delete'] as const]);

  it.each(pairs)(
    '%s before %s: a new instance with the deleted id inherits nothing',
    async (...acts) => {
      const harness = await openHarness(fastPaths);
      await harness.commitInOrder(...acts);
      const { abortTriggers } = await harness.finish();
      const running = acts.some((act) => settling.has(act)) ? 1 : 2;
      const reason = isAbortedImmediately(acts[0], fastPaths) ? 'cancel' : 'deleted';
      expect(abortTriggers).toEqual(Array.from({ length: running }, () => reason));
      expect(await harness.startAgain()).toMatchObject({
        ...completed('second'),
        isCancelRequested: false,
      });
    },
  );
});
