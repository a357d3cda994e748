import fc from 'fast-check';
import type { CancellationType } from '../../../src/model/cancel.ts';
import type { Fate, HoldPoint } from './store-boundary.ts';
import type { Call, Script, Step } from './script.ts';

/** One step of a scenario. Indexes are taken modulo the number of candidates. */
export type Command = { readonly pace: number | 'rest' } & (
  | { readonly do: 'start'; readonly script: number; readonly process: number }
  | {
      readonly do: 'cancel';
      readonly target: number;
      readonly reason: string;
      readonly cleanupMs: number;
    }
  | { readonly do: 'terminate'; readonly target: number; readonly tree: boolean }
  | { readonly do: 'delete'; readonly target: number; readonly force: boolean }
  | { readonly do: 'prune'; readonly target: number; readonly keepLast: number }
  | { readonly do: 'raise'; readonly target: number }
  | { readonly do: 'retry'; readonly target: number; readonly from: 'failure' | 'start' }
  | { readonly do: 'pause' | 'resume'; readonly target: number }
  | {
      readonly do: 'tell';
      readonly handler: number;
      readonly word: 'complete' | 'fail' | 'pass' | 'heed';
    }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'release'; readonly call: number; readonly fate: Fate }
  | { readonly do: 'repeat'; readonly ack: number }
  | { readonly do: 'join' }
  | { readonly do: 'stop'; readonly process: number }
  /** `inFlight`: its held calls may still reach the store. */
  | { readonly do: 'crash'; readonly process: number; readonly inFlight: boolean }
  | { readonly do: 'takeover' }
);

/** One run of the check. */
export interface Scenario {
  readonly profile: Profile;
  /** Seeds the random numbers of the run. */
  readonly seed: number;
  readonly fastPaths: boolean;
  readonly warm: boolean;
  readonly hints: boolean;
  /** Points at which calls are held until their release, from command `holdFrom` on. */
  readonly hold: readonly HoldPoint[];
  readonly holdFrom: number;
  readonly scripts: readonly Script[];
  readonly commands: readonly Command[];
}

/**
 * `races`: one worker, many held calls. `crashes`: workers join, stop and crash, and the store fails. `takeovers`: also,
 * workers take over the claims of crashed ones, each with its own provider.
 */
export type Profile = 'races' | 'crashes' | 'takeovers';

const cancellation: fc.Arbitrary<CancellationType> = fc.constantFrom('request', 'wait', 'abandon');

const call: fc.Arbitrary<Call> = fc.record({
  cancellation: fc.constantFrom('request', 'request', 'wait', 'abandon'),
  attempts: fc.constantFrom(1, 2),
  deaf: fc.boolean(),
});

// A scope waits for its code, so a call with mode `wait` could outlast the deadline.
const scopedCall = call.map((one): Call => ({
  ...one,
  cancellation: one.cancellation === 'wait' ? 'request' : one.cancellation,
}));

const ms = fc.constantFrom(50, 100, 400);

const leafStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('call' as const), call }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('both' as const), first: call, second: call }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('race' as const), call, ms }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('scope' as const), call: scopedCall, ms }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('sleep' as const), ms }) },
  { weight: 3, arbitrary: fc.constant({ do: 'wait' as const }) },
  { weight: 3, arbitrary: fc.constant({ do: 'again' as const }) },
);

const scriptOf = (step: fc.Arbitrary<Step>): fc.Arbitrary<Script> =>
  fc.record({
    steps: fc.array(step, { minLength: 1, maxLength: 3 }),
    onError: fc.constantFrom('throw', 'throw', 'return', 'fail'),
    cleanUp: fc.constantFrom(false, false, true),
  });

const childStep: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('child' as const),
  cancellation,
  script: scriptOf(leafStep),
});

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: leafStep },
  { weight: 1, arbitrary: childStep },
);

const script = scriptOf(step);

const heldInCrashes = [
  'requestCancel:before',
  'deleteInstancesAtomic:before',
  'retryInstances:before',
  'fetchOrchestrationItems:after',
  'fetchWorkItems:after',
  'ackOrchestrationItems:before',
  'ackTurns:before',
  'ackWorkItems:before',
  'retryWorkItems:before',
  'abandonWorkItems:before',
  'abandonOrchestrationItems:before',
  'renewWorkItemLocks:before',
  'renewOrchestrationLocks:before',
] as const satisfies readonly HoldPoint[];

const held = {
  races: [
    'createInstances:before',
    'createInstances:after',
    'enqueueMessages:before',
    'requestCancel:before',
    'requestCancel:after',
    'terminate:before',
    'pauseInstances:before',
    'resumeInstances:before',
    'deleteInstancesAtomic:before',
    'deleteInstancesAtomic:after',
    'pruneExecutionsAtomic:before',
    'retryInstances:before',
    'retryInstances:after',
    'fetchOrchestrationItems:after',
    'fetchWorkItems:after',
    'ackOrchestrationItems:before',
    'ackOrchestrationItems:after',
    'ackTurns:before',
    'ackTurns:after',
    'ackWorkItems:before',
    'ackWorkItems:after',
    'retryWorkItems:before',
    'renewWorkItemLocks:before',
    'renewWorkItemLocks:after',
    'markPointOfNoReturn:before',
    'markPointOfNoReturn:after',
  ],
  crashes: heldInCrashes,
  takeovers: heldInCrashes,
} as const satisfies Record<Profile, readonly HoldPoint[]>;

// Points where a decision of the engine races a request.
const decisiveHoldPoints = [
  'ackOrchestrationItems:before',
  'ackOrchestrationItems:before',
  'ackTurns:before',
  'ackWorkItems:before',
  'fetchWorkItems:after',
  'requestCancel:before',
] as const satisfies readonly HoldPoint[];

const raceHoldPoints = [
  'requestCancel:before',
  'deleteInstancesAtomic:before',
  'enqueueMessages:before',
  'terminate:before',
  'retryInstances:before',
  'ackOrchestrationItems:before',
  'ackTurns:before',
  'ackWorkItems:before',
  'retryWorkItems:before',
  'markPointOfNoReturn:before',
  'fetchOrchestrationItems:after',
] as const satisfies readonly HoldPoint[];

const rest = { pace: 'rest' } as const;
const atOnce = { pace: 0 } as const;
const cancel: Command = { do: 'cancel', target: 1, reason: 'a', cleanupMs: 5_000, ...rest };
const complete: Command = { do: 'tell', handler: 0, word: 'complete', ...rest };
const fail: Command = { do: 'tell', handler: 0, word: 'fail', ...rest };
const pass: Command = { do: 'tell', handler: 0, word: 'pass', ...rest };
const raise: Command = { do: 'raise', target: 1, ...rest };
const pause: Command = { do: 'pause', target: 1, ...rest };
const resume: Command = { do: 'resume', target: 1, ...rest };
const terminate: Command = { do: 'terminate', target: 1, tree: false, ...rest };
const remove: Command = { do: 'delete', target: 1, force: true, ...rest };
// The same id again: this index selects an existing script.
const recreate: Command = { do: 'start', script: 2, process: 0, ...rest };
const retry: Command = { do: 'retry', target: 1, from: 'failure', ...rest };
const restart: Command = { ...retry, from: 'start' };
const prune: Command = { do: 'prune', target: 1, keepLast: 1, ...rest };
const advance: Command = { do: 'advance', ms: 110, ...rest };

// Some appear twice, so that two of them can race. Those without a pause are handled in one turn.
const acts: readonly Command[] = [
  cancel,
  { ...cancel, reason: 'b', cleanupMs: 100 },
  complete,
  { ...complete, ...atOnce },
  fail,
  pass,
  raise,
  { ...raise, ...atOnce },
  terminate,
  { ...terminate, tree: true, ...atOnce },
  remove,
  recreate,
  prune,
  pause,
  resume,
  advance,
  { do: 'repeat', ack: 1, ...rest },
];

// Sequences of more than two commands in a fixed order, which would be rare otherwise.
const stops: readonly (readonly Command[])[] = [
  [pass, fail, cancel],
  [fail, cancel],
  [fail, advance, cancel],
  [{ ...raise, ...atOnce }, cancel],
  [
    { ...raise, ...atOnce },
    { ...cancel, cleanupMs: 100 },
  ],
  [{ ...raise, ...atOnce }, cancel, terminate],
  [{ ...complete, ...atOnce }, cancel],
  [cancel, terminate],
];
const deletions: readonly (readonly Command[])[] = [
  [remove, recreate],
  [complete, remove, recreate],
  [fail, remove, recreate],
  [cancel, remove, recreate],
  [{ ...raise, ...atOnce }, remove, recreate],
];
const pauses: readonly (readonly Command[])[] = [
  [pause, complete, advance, resume],
  [pause, raise, advance],
  [pause, fail, advance, resume],
  [complete, pause, cancel],
  [pause, terminate],
  [pause, remove, recreate],
];
// The first ends the instance. Work of the ended execution may still run, and its outcome arrives later.
const retries: readonly (readonly Command[])[] = [
  [terminate, retry, complete],
  [terminate, restart, complete, { ...complete, handler: 1 }],
  [{ ...complete, ...atOnce }, terminate, retry],
  [{ ...raise, ...atOnce }, terminate, retry],
  [fail, retry, complete],
  [fail, { ...retry, ...atOnce }, restart],
  [cancel, retry, raise],
  [fail, { ...retry, ...atOnce }, remove, recreate],
  [terminate, { ...retry, ...atOnce }, { ...remove, ...atOnce }],
  [fail, { ...retry, ...atOnce }, { ...remove, ...atOnce }],
  [terminate, { ...retry, ...atOnce }, { ...retry, ...atOnce }, cancel],
  [terminate, retry, terminate, retry, prune],
  [pause, terminate, retry, complete],
];
const sequences = [...pauses, ...retries, ...stops, ...stops, ...stops, ...deletions];

const pace = fc.constantFrom('rest' as const, 'rest' as const, 0, 1, 2, 3);
const which = fc.nat(11);

function commandOf(profile: Profile): fc.Arbitrary<Command> {
  const fates: readonly Fate[] =
    profile === 'races' ? ['go'] : ['go', 'go', 'go', 'fail', 'commitAndFail'];
  const crashes = profile === 'races' ? 0 : 1;
  const takeovers = profile === 'takeovers' ? 1 : 0;
  return fc.oneof(
    {
      weight: 4,
      arbitrary: record('cancel', {
        target: which,
        reason: fc.constantFrom('a', 'b'),
        cleanupMs: fc.constantFrom(100, 5_000),
      }),
    },
    { weight: 1, arbitrary: record('terminate', { target: which, tree: fc.boolean() }) },
    {
      weight: 1,
      arbitrary: record('delete', { target: which, force: fc.constantFrom(true, true, false) }),
    },
    { weight: 1, arbitrary: record('prune', { target: which, keepLast: fc.nat(2) }) },
    { weight: 2, arbitrary: record('raise', { target: which }) },
    {
      weight: 2,
      arbitrary: record('retry', { target: which, from: fc.constantFrom('failure', 'start') }),
    },
    { weight: 1, arbitrary: record('pause', { target: which }) },
    { weight: 1, arbitrary: record('resume', { target: which }) },
    {
      weight: 7,
      arbitrary: record('tell', {
        handler: which,
        word: fc.constantFrom('complete', 'complete', 'fail', 'pass', 'heed'),
      }),
    },
    { weight: 6, arbitrary: record('release', { call: which, fate: fc.constantFrom(...fates) }) },
    { weight: 4, arbitrary: record('advance', { ms: fc.constantFrom(30, 60, 110, 350) }) },
    { weight: 1, arbitrary: record('start', { script: which, process: which }) },
    { weight: 1, arbitrary: record('repeat', { ack: which }) },
    { weight: crashes, arbitrary: record('join', {}) },
    { weight: crashes, arbitrary: record('stop', { process: which }) },
    {
      weight: 2 * crashes,
      arbitrary: record('crash', { process: which, inFlight: fc.boolean() }),
    },
    { weight: 3 * takeovers, arbitrary: record('takeover', {}) },
  );
}

function record<Fields extends object>(
  what: Command['do'],
  fields: { readonly [Key in keyof Fields]: fc.Arbitrary<Fields[Key]> },
): fc.Arbitrary<Command> {
  return fc.record({ do: fc.constant(what), pace, ...fields }) as unknown as fc.Arbitrary<Command>;
}

const modes = {
  seed: fc.nat(1_000_000),
  fastPaths: fc.boolean(),
  warm: fc.boolean(),
  hints: fc.boolean(),
};

/** Random commands in random order. */
const randomScenarios = (profile: Profile): fc.Arbitrary<Scenario> =>
  fc.record({
    ...modes,
    profile: fc.constant(profile),
    hold: fc
      .tuple(
        fc.constantFrom<HoldPoint>(...decisiveHoldPoints),
        fc.subarray<HoldPoint>([...held[profile]], { maxLength: 3 }),
      )
      .map(([one, others]) => [...new Set([one, ...others])]),
    holdFrom: fc.constantFrom(0, 0, 1, 2),
    scripts: fc.array(script, { minLength: 1, maxLength: 2 }),
    commands: commandsOf(fc.array(commandOf(profile), { minLength: 3, maxLength: 14 })),
  });

// Calls that a cancel does not end immediately.
const stubborn: readonly Call[] = [
  { cancellation: 'wait', attempts: 2, deaf: true },
  { cancellation: 'request', attempts: 1, deaf: true },
];

/** Two to four commands race on one running instance, and commit in random order. */
const raceScenarios: fc.Arbitrary<Scenario> = fc.record({
  ...modes,
  profile: fc.constant('races'),
  hold: fc.subarray<HoldPoint>([...raceHoldPoints]),
  holdFrom: fc.constant(1),
  scripts: fc
    .record({
      before: fc.oneof(
        fc.record({ do: fc.constant('call' as const), call }),
        fc.record({ do: fc.constant('call' as const), call: fc.constantFrom(...stubborn) }),
        fc.constant({ do: 'wait' as const }),
      ),
      after: fc.oneof(
        fc.array(step, { maxLength: 2 }),
        leafStep.map((last): Step[] => [{ do: 'again' }, last]),
        childStep.map((last): Step[] => [last]),
      ),
      onError: fc.constantFrom('throw', 'throw', 'return', 'fail'),
      cleanUp: fc.constantFrom(false, false, true),
    })
    .map(({ before, after, ...rest }): readonly Script[] => [
      { ...rest, steps: [before, ...after] },
    ]),
  commands: commandsOf(
    fc
      .tuple(
        fc.oneof(
          { weight: 3, arbitrary: fc.shuffledSubarray([...acts], { minLength: 2, maxLength: 4 }) },
          { weight: 3, arbitrary: fc.constantFrom(...sequences) },
        ),
        fc.array(record('release', { call: which, fate: fc.constant('go') }), {
          minLength: 1,
          maxLength: 8,
        }),
      )
      .map(([some, releases]) => [...some, ...releases]),
  ),
});

/** Work of a previous execution still runs while commands reach the next one. */
const leftoverScenarios: fc.Arbitrary<Scenario> = fc.record({
  ...modes,
  profile: fc.constant('races'),
  hold: fc.subarray<HoldPoint>([...raceHoldPoints]),
  holdFrom: fc.constant(3),
  scripts: fc
    .record({
      call: fc.record({
        cancellation: fc.constantFrom('request', 'abandon'),
        attempts: fc.constantFrom(1, 2),
        deaf: fc.constant(true),
      }),
      last: leafStep,
    })
    .map(({ call: left, last }): readonly Script[] => [
      {
        steps: [{ do: 'race', call: left, ms: 50 }, { do: 'again' }, last],
        onError: 'throw',
        cleanUp: false,
      },
    ]),
  commands: commandsOf(
    fc
      .tuple(
        fc.shuffledSubarray([...acts], { minLength: 1, maxLength: 3 }),
        fc.nat(3),
        fc.array(record('release', { call: which, fate: fc.constant('go') }), { maxLength: 4 }),
      )
      .map(([some, at, releases]) => [
        { ...advance, ms: 60 },
        ...some.toSpliced(at, 0, prune),
        ...releases,
      ]),
  ),
});

const join: Command = { do: 'join', ...rest };
const crash: Command = { do: 'crash', process: 0, inFlight: true, ...rest };
const takeover: Command = { do: 'takeover', ...rest };
const release: Command = { do: 'release', call: 0, fate: 'go', ...rest };

// A process dies with claims. Another takes them over, and calls of the dead one reach the store before or after that.
const takeovers: readonly (readonly Command[])[] = [
  [complete, crash, takeover, release],
  [complete, crash, takeover, join, release],
  [complete, crash, join, release, takeover],
  [fail, crash, takeover, join, release],
  [crash, takeover, join, complete, release],
  [pause, complete, crash, takeover, join, release],
  [{ ...raise, ...atOnce }, crash, takeover, join, release],
  [cancel, crash, takeover, join, release],
  [terminate, crash, retry, takeover, join, release],
  [complete, crash, takeover, terminate, retry, join, release],
  [join, complete, crash, takeover, { ...complete, ...atOnce }, release],
];

/** A process dies while its claims are acked. */
const takeoverScenarios: fc.Arbitrary<Scenario> = fc.record({
  ...modes,
  profile: fc.constant('takeovers'),
  hold: fc.subarray<HoldPoint>(
    [
      'ackWorkItems:before',
      'ackTurns:before',
      'ackOrchestrationItems:before',
      'fetchWorkItems:after',
      'retryWorkItems:before',
    ],
    { minLength: 1 },
  ),
  holdFrom: fc.constant(1),
  scripts: fc.array(script, { minLength: 1, maxLength: 1 }),
  commands: commandsOf(
    fc
      .tuple(fc.constantFrom(...takeovers), fc.array(commandOf('takeovers'), { maxLength: 3 }))
      .map(([some, others]) => [...some, ...others]),
  ),
});

/** Commands after one start. */
function commandsOf(commands: fc.Arbitrary<readonly Command[]>): fc.Arbitrary<readonly Command[]> {
  const start: Command = { do: 'start', script: 0, process: 0, pace: 'rest' };
  return commands.map((rest) => [start, ...rest]);
}

/** Scenarios of a profile. */
export function scenarios(profile: Profile): fc.Arbitrary<Scenario> {
  switch (profile) {
    case 'races':
      return fc.oneof(
        { weight: 6, arbitrary: randomScenarios(profile) },
        { weight: 6, arbitrary: raceScenarios },
        { weight: 1, arbitrary: leftoverScenarios },
      );
    case 'crashes':
      return randomScenarios(profile);
    case 'takeovers':
      return fc.oneof(
        { weight: 1, arbitrary: randomScenarios(profile) },
        { weight: 1, arbitrary: takeoverScenarios },
      );
  }
}
