/**
 * The single-statement turn ack against the rules of the general path. The path may leave an allowed turn to the general
 * path. It must not commit a turn that `fenceBreach` or `turnError` rejects.
 */
import { expect, it } from 'vitest';
import type { TurnAck } from '../../../src/providers/contract/work-queue.ts';
import { SingleStatementTurnAcks } from '../../../src/providers/postgres/single-statement/turn-acks.ts';
import { isClaimed } from '../../../src/providers/rules/claims.ts';
import { fenceBreach, turnError, type FenceBreach } from '../../../src/providers/rules/turns.ts';
import { event, newTurn, raised, workItem } from '../../../src/testing/conformance/sample-data.ts';
import type { InstanceStatus } from '../../../src/model/status.ts';
import { applyMutation } from './mutation.ts';
import {
  definitionKeys,
  keysPerTrial,
  openPathDatabase,
  runTrials,
  withinTwoChanges,
  type PathDatabase,
  type TrialReport,
} from './path-trial.ts';
import { noPause } from './fence.ts';
import { turnFences } from './turn-fences.ts';

const now = 1_000;

interface State {
  readonly status: InstanceStatus;
  readonly incarnation: string;
  readonly executionId: number;
  readonly lastTurn: string | null;
  readonly historyLength: number;
  /** The row in `instance_locks`. */
  readonly lock: { readonly lockToken: string | null; readonly lockedUntil: number | null } | null;
  /** When a message is visible. Such an instance has a row in `instance_locks`. */
  readonly messageAt: number | null;
  readonly item: {
    readonly isMissing: boolean;
    readonly isOfStranger: boolean;
    readonly executionId: number;
    readonly lockToken: string | null;
    readonly lockedUntil: number | null;
    readonly cancelRequested: boolean;
    readonly pointOfNoReturn: boolean;
    readonly shielded: boolean;
  };
}

/** The state from which the turn was computed. */
const expected = {
  status: 'running',
  incarnation: 'i1',
  executionId: 2,
  lastTurn: 'turn-4',
  historyLength: 4,
  lock: null,
  messageAt: null,
  item: {
    isMissing: false,
    isOfStranger: false,
    executionId: 2,
    lockToken: 'held',
    lockedUntil: now + 1,
    cancelRequested: false,
    pointOfNoReturn: false,
    shielded: false,
  },
} as const satisfies State;

const set = (parts: Partial<State>) => (state: State) => ({ ...state, ...parts });
const item = (parts: Partial<State['item']>) => (state: State) => ({
  ...state,
  item: { ...state.item, ...parts },
});
const states = withinTwoChanges<State>(expected, [
  {
    pending: set({ status: 'pending' }),
    canceling: set({ status: 'canceling' }),
    completed: set({ status: 'completed' }),
  },
  { 'another incarnation': set({ incarnation: 'i2' }) },
  { 'another execution': set({ executionId: 3 }) },
  { 'another turn': set({ lastTurn: 'turn-5' }), 'no turn': set({ lastTurn: null }) },
  { 'a longer history': set({ historyLength: 5 }) },
  {
    'a free lock': set({ lock: { lockToken: null, lockedUntil: null } }),
    'a claim': set({ lock: { lockToken: 'other', lockedUntil: now + 1 } }),
    'an expired claim': set({ lock: { lockToken: 'other', lockedUntil: now } }),
  },
  { 'a visible message': set({ messageAt: now }), 'a later message': set({ messageAt: now + 1 }) },
  { 'an item of another execution': item({ executionId: 1 }) },
  { 'an item of another instance': item({ isOfStranger: true }) },
  { 'a deleted item': item({ isMissing: true }) },
  {
    'an expired item': item({ lockedUntil: now }),
    'a released item': item({ lockToken: null, lockedUntil: null }),
    'an item of another worker': item({ lockToken: 'other' }),
  },
  { 'a flagged item': item({ cancelRequested: true }) },
  { 'an item past its point of no return': item({ pointOfNoReturn: true }) },
  { 'a shielded item': item({ shielded: true }) },
]);
const outcomes = [{ status: 'running' }, { status: 'completed', payload: '1' }] as const;
const allTrials = states.flatMap((one) => outcomes.map((outcome) => ({ ...one, outcome })));

/** The ack of an instance with two items: `2 * key` of the state, and `2 * key + 1`, which is always held. */
function ackOf(instanceKey: number, outcome: (typeof outcomes)[number]): TurnAck {
  const { incarnation, executionId, lastTurn, historyLength } = expected;
  return {
    instanceKey,
    incarnation,
    executionId,
    lastTurn,
    lockTokens: [`${2 * instanceKey}.held`, `${2 * instanceKey + 1}.held`],
    turn: newTurn({
      firstEventId: historyLength + 1,
      events: [event('next')],
      workItems: [workItem(9)],
      outcome,
    }),
  };
}

/** What the general path finds wrong with the turn. */
function objection(ack: TurnAck, state: State): FenceBreach | 'turn' | undefined {
  const { lock, messageAt } = state;
  const { instanceKey } = ack;
  const isHeld =
    !state.item.isMissing && state.item.lockToken === 'held' && isClaimed(state.item, now);
  const own = { ...state.item, instanceKey: instanceKey + (state.item.isOfStranger ? 2 : 0) };
  const breach = fenceBreach(ack, {
    instance: state,
    isPaused: false,
    isClaimed: lock !== null && isClaimed(lock, now),
    hasVisible: messageAt !== null && messageAt <= now,
    visible: [],
    items: [isHeld ? own : undefined, { ...expected.item, instanceKey }],
  });
  return breach ?? (turnError(state, ack.turn, 'ackTurns') === undefined ? undefined : 'turn');
}

async function insertState(
  { insert }: PathDatabase,
  instances: readonly { readonly instanceKey: number; readonly state: State }[],
): Promise<void> {
  await insert(
    'instances',
    instances.map(({ instanceKey, state }) => ({
      instance_key: instanceKey,
      instance_id: `instance ${instanceKey}`,
      incarnation: state.incarnation,
      definition_key: definitionKeys.orchestration,
      status: state.status,
      execution_id: state.executionId,
      history_length: state.historyLength,
      last_turn: state.lastTurn,
      input_hash: 'hash',
      created_at: 1,
      ended_at: state.status === 'completed' ? 2 : null,
      completed_at: state.status === 'completed' ? 2 : null,
    })),
  );
  const ofItem = {
    operation: 1,
    definition_key: definitionKeys.activity,
    next_at: 1,
    claims: 1,
    created_at: 1,
  };
  await insert(
    'worker_queue',
    instances.flatMap(({ instanceKey, state }) =>
      [state.item, expected.item].flatMap((one, place) =>
        one.isMissing
          ? []
          : [
              {
                ...ofItem,
                item_key: 2 * instanceKey + place,
                instance_key: instanceKey + (one.isOfStranger ? 2 : 0),
                operation: place + 1,
                execution_id: one.executionId,
                lock_token: one.lockToken,
                locked_until: one.lockedUntil,
                cancel_requested: one.cancelRequested,
                point_of_no_return: one.pointOfNoReturn,
                shielded: one.shielded,
              },
            ],
      ),
    ),
  );
  const queued = instances.filter(({ state }) => state.messageAt !== null || state.lock !== null);
  await insert(
    'instance_locks',
    queued.map(({ instanceKey, state: { lock } }) => ({
      instance_key: instanceKey,
      definition_key: definitionKeys.orchestration,
      lock_token: lock?.lockToken ?? null,
      locked_until: lock?.lockedUntil ?? null,
      claims: 1,
    })),
  );
  await insert(
    'orchestrator_queue',
    queued.flatMap(({ instanceKey, state: { messageAt } }) => {
      const { kind, data, payload } = raised('message');
      if (messageAt === null) return [];
      return [
        {
          message_key: instanceKey,
          instance_key: instanceKey,
          visible_at: messageAt,
          kind,
          data,
          payload,
        },
      ];
    }),
  );
}

/** Commits each turn in a batch with a turn that is allowed. */
async function run(
  trials: typeof allTrials,
): Promise<TrialReport & { readonly objections: ReadonlySet<string> }> {
  const database = await openPathDatabase();
  const keys = trials.map((_, index) => keysPerTrial * index);
  await insertState(
    database,
    trials.flatMap(({ state }, index) => [
      { instanceKey: keys[index] ?? 0, state },
      { instanceKey: (keys[index] ?? 0) + 1, state: expected },
    ]),
  );
  const objections = new Set<string>();
  const report = await runTrials(
    database,
    trials.map(({ title, state, outcome }, index) => {
      const acks = [0, 1].map((place) => ackOf((keys[index] ?? 0) + place, outcome));
      const [ack] = acks as [TurnAck];
      const found = objection(ack, state);
      if (found !== undefined) objections.add(found);
      return {
        title: `${title}, ${outcome.status}`,
        isAllowed: found === undefined,
        // A new one each time, because a path that failed is skipped for some batches.
        run: () => new SingleStatementTurnAcks(database.parts).commit(acks, now),
      };
    }),
  );
  return { ...report, objections };
}

it('the single-statement turn ack commits only turns that the rules allow', async () => {
  const { committed, forbidden, breaches, errors, objections } = await run(allTrials);
  expect(breaches).toEqual([]);
  expect(errors).toEqual([]);
  expect(committed).toBe(8);
  expect(forbidden).toBeGreaterThan(100);
  expect([...objections].toSorted()).toEqual(['claim', 'instance', 'items', 'messages', 'turn']);
});

// The rules allow these turns. The path leaves them to the general path, which writes more for them.
const beyondRules = ['the version', 'no children at the end', 'no other items at the end', noPause];
const fences = turnFences.fences.filter(({ demands }) => !beyondRules.includes(demands));

it.each(fences)('a turn ack that does not demand $demands violates the rules', async (fence) => {
  const sent = applyMutation({ ...fence, statement: turnFences.name });
  const { breaches, errors } = await run(allTrials.filter(({ changes }) => changes < 2));
  expect(sent()).toBeGreaterThan(0);
  expect(errors).toEqual([]);
  expect(breaches).not.toEqual([]);
});
