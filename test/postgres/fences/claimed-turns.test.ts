/** The acks of claimed instances in one statement: turns that go on or end, and turns that end as canceled. */
import { expect, it } from 'vitest';
import type { OrchestrationAck } from '../../../src/providers/contract/orchestration-queue.ts';
import type { TurnOutcome } from '../../../src/providers/contract/turn.ts';
import { nowSql } from '../../../src/providers/postgres/driver/scope.ts';
import { SingleStatementCanceledTurns } from '../../../src/providers/postgres/single-statement/canceled-turns.ts';
import { SingleStatementClaimedTurns } from '../../../src/providers/postgres/single-statement/claimed-turns.ts';
import { isHeldBy } from '../../../src/providers/rules/claims.ts';
import { turnError } from '../../../src/providers/rules/turns.ts';
import { event, newTurn, raised, workItem } from '../../../src/testing/conformance/sample-data.ts';
import type { InstanceStatus } from '../../../src/model/status.ts';
import { limitedItems, limitKeys } from './fence.ts';
import { applyMutation, literally } from './mutation.ts';
import { describePath } from './path-fences.ts';
import {
  definitionKeys,
  keysPerTrial,
  openPathDatabase,
  runTrials,
  withinTwoChanges,
  type PathDatabase,
  type TrialReport,
} from './path-trial.ts';

const now = 1_000;

interface State {
  readonly status: InstanceStatus;
  readonly isClosing: boolean;
  readonly isPaused: boolean;
  readonly definitionKey: number;
  readonly historyLength: number;
  readonly hasChildren: boolean;
  readonly hasParent: boolean;
  readonly lock: { readonly lockToken: string | null; readonly lockedUntil: number | null };
  /** A message that the turn has not read, visible or not. */
  readonly unreadAt: number | null;
  /** Whether the message that the turn names belongs to another instance, which also has one. */
  readonly readsForeign: boolean;
  readonly item: {
    readonly lockedUntil: number | null;
    readonly isAsked: boolean;
    readonly cancellation: 'request' | 'abandon';
  } | null;
}

const set = (parts: Partial<State>) => (state: State) => ({ ...state, ...parts });

/** The state that a turn was computed from. */
const running: State = {
  status: 'running',
  isClosing: false,
  isPaused: false,
  definitionKey: definitionKeys.orchestration,
  historyLength: 4,
  hasChildren: false,
  hasParent: false,
  lock: { lockToken: 'held', lockedUntil: now + 1 },
  unreadAt: null,
  readsForeign: false,
  item: null,
};
const held = { lockedUntil: now + 1, isAsked: true, cancellation: 'request' } as const;
// A definition of another version.
const otherVersion = 9;

const changes = {
  claim: {
    'another token': set({ lock: { lockToken: 'other', lockedUntil: now + 1 } }),
    'an expired claim': set({ lock: { lockToken: 'held', lockedUntil: now } }),
    'no claim': set({ lock: { lockToken: null, lockedUntil: null } }),
  },
  history: { 'a longer history': set({ historyLength: 5 }) },
  version: { 'another version': set({ definitionKey: otherVersion }) },
  pause: { 'a pause': set({ isPaused: true }) },
  children: { children: set({ hasChildren: true }) },
};

const states = withinTwoChanges<State>(running, [
  {
    pending: set({ status: 'pending' }),
    canceling: set({ status: 'canceling' }),
    completed: set({ status: 'completed' }),
  },
  ...Object.values(changes),
  { 'an unread message': set({ unreadAt: now }), 'a timer': set({ unreadAt: now + 1 }) },
  { 'a message of another instance': set({ readsForeign: true }) },
  { 'an item': set({ item: held }) },
]);

const canceledStates = withinTwoChanges<State>({ ...running, status: 'canceling' }, [
  { running: set({ status: 'running' }), completed: set({ status: 'completed' }) },
  { closing: set({ isClosing: true }) },
  ...Object.values(changes),
  { 'a parent': set({ hasParent: true }) },
  { 'an unread message': set({ unreadAt: now }), 'a timer': set({ unreadAt: now + 1 }) },
  {
    'a flagged item': set({ item: held }),
    'an item that was not asked': set({ item: { ...held, isAsked: false } }),
    'a released item': set({ item: { ...held, lockedUntil: now } }),
    'an abandoned item': set({ item: { ...held, cancellation: 'abandon' } }),
  },
]);

function ackOf(instanceKey: number, outcome: TurnOutcome, messageKey: number): OrchestrationAck {
  const workItems = outcome.status === 'running' ? [workItem(9)] : [];
  return {
    instanceId: `instance ${instanceKey}`,
    lockToken: `${instanceKey}.held`,
    messageKeys: [messageKey],
    turn: newTurn({ firstEventId: 5, events: [event('next')], workItems, outcome }),
  };
}

/** Whether the rules allow the turn of a claimed instance. */
function isAllowed(state: State, { turn }: OrchestrationAck): boolean {
  return (
    isHeldBy(state.lock, 'held', now) &&
    turnError(state, turn, 'ackOrchestrationItems') === undefined
  );
}

/** Whether the general path writes no more than the statement. */
function isPlain(state: State, { status: outcome }: TurnOutcome): boolean {
  const isSame = state.definitionKey === definitionKeys.orchestration && !state.isPaused;
  if (outcome === 'canceled') {
    const { item } = state;
    const isAsked =
      item === null ||
      (item.isAsked && item.cancellation !== 'abandon' && item.lockedUntil === now + 1);
    const isAlone = !state.hasChildren && !state.hasParent;
    return isSame && state.status === 'canceling' && !state.isClosing && isAlone && isAsked;
  }
  const isLive = state.status === 'running' || state.status === 'pending';
  const hasRead = state.unreadAt === null && !state.readsForeign;
  const ends = outcome !== 'running';
  return isSame && isLive && hasRead && !(ends && (state.hasChildren || state.item !== null));
}

async function insertStates(
  { insert }: PathDatabase,
  instances: readonly { readonly instanceKey: number; readonly state: State }[],
): Promise<void> {
  await insert('definitions', [
    { definition_key: otherVersion, kind: 'orchestration', name: 'sample', version: '2' },
  ]);
  await insert(
    'instances',
    instances.map(({ instanceKey, state }) => ({
      instance_key: instanceKey,
      instance_id: `instance ${instanceKey}`,
      incarnation: 'i1',
      definition_key: state.definitionKey,
      status: state.status,
      execution_id: 2,
      history_length: state.historyLength,
      last_turn: 'turn-4',
      has_children: state.hasChildren,
      parent_instance_id: state.hasParent ? 'parent' : null,
      parent_execution_id: state.hasParent ? 1 : null,
      parent_operation: state.hasParent ? 1 : null,
      cancellation: state.hasParent ? 'request' : null,
      closing_reason: state.isClosing ? 'closing' : null,
      paused_at: state.isPaused ? 1 : null,
      input_hash: 'hash',
      created_at: 1,
      cancel_requested_at: state.status === 'canceling' ? 1 : null,
      cancel_reason: state.status === 'canceling' ? 'asked' : null,
      ended_at: state.status === 'completed' ? 2 : null,
      completed_at: state.status === 'completed' ? 2 : null,
    })),
  );
  await insert(
    'instance_locks',
    instances.map(({ instanceKey, state: { lock, definitionKey } }) => ({
      instance_key: instanceKey,
      definition_key: definitionKey,
      lock_token: lock.lockToken,
      locked_until: lock.lockedUntil,
      claims: 1,
    })),
  );
  const { kind, data, payload } = raised('message');
  const message = { visible_at: 1, kind, data, payload };
  await insert(
    'orchestrator_queue',
    instances.flatMap(({ instanceKey, state: { unreadAt } }) => [
      { ...message, message_key: 2 * instanceKey, instance_key: instanceKey },
      ...(unreadAt === null
        ? []
        : [
            {
              ...message,
              visible_at: unreadAt,
              message_key: 2 * instanceKey + 1,
              instance_key: instanceKey,
            },
          ]),
    ]),
  );
  await insert(
    'worker_queue',
    instances.flatMap(({ instanceKey, state: { item } }) =>
      item === null
        ? []
        : [
            {
              item_key: instanceKey,
              instance_key: instanceKey,
              execution_id: 2,
              operation: 1,
              definition_key: definitionKeys.activity,
              next_at: 1,
              claims: 1,
              created_at: 1,
              lock_token: 'worker',
              locked_until: item.lockedUntil,
              cancellation: item.cancellation,
              cancel_requested: item.isAsked,
              cancel_requested_at: item.isAsked ? 1 : null,
            },
          ],
    ),
  );
}

/** Acks each turn in a batch with a turn that is allowed. */
async function run(
  trials: readonly {
    readonly title: string;
    readonly state: State;
    readonly outcome: TurnOutcome;
  }[],
  path: typeof SingleStatementClaimedTurns | typeof SingleStatementCanceledTurns,
  allowed: State,
): Promise<TrialReport> {
  const database = await openPathDatabase();
  const keys = trials.map((_, index) => keysPerTrial * index + keysPerTrial);
  await insertStates(
    database,
    trials.flatMap(({ state }, index) => [
      { instanceKey: keys[index] ?? 0, state },
      { instanceKey: (keys[index] ?? 0) + 1, state: allowed },
      { instanceKey: (keys[index] ?? 0) + 2, state: running },
    ]),
  );
  return runTrials(database, [
    { title: 'no trial', isAllowed: true, run: () => Promise.resolve(undefined) },
    ...trials.map(({ title, state, outcome }, index) => {
      const key = keys[index] ?? 0;
      const ack = ackOf(key, outcome, 2 * (state.readsForeign ? key + 2 : key));
      return {
        title: `${title}, ${outcome.status}`,
        isAllowed: isAllowed(state, ack) && isPlain(state, outcome),
        // A new one each time, because a path that failed is skipped for some batches.
        run: () =>
          new path(database.parts).commit([ack, ackOf(key + 1, outcome, 2 * key + 2)], now),
      };
    }),
  ]);
}

/** Acks a turn that is allowed, while a definition is paused. */
async function ackBesidePause(): Promise<unknown> {
  const database = await openPathDatabase();
  await insertStates(database, [{ instanceKey: 1, state: running }]);
  await database.insert('paused_definitions', [{ kind: 'activity', name: 'other', paused_at: 1 }]);
  const path = new SingleStatementClaimedTurns(database.parts);
  return path.commit([ackOf(1, { status: 'running' }, 2)], now);
}

it('a turn is left to the general path while a definition is paused', async () => {
  expect(await ackBesidePause()).toBeUndefined();
  applyMutation({
    statement: 'perdure_commit_claimed_turns',
    find: /NOT EXISTS \(SELECT FROM \S+\.paused_definitions\)(?= AS ok)/,
    replace: 'TRUE',
  });
  expect(await ackBesidePause()).toBeDefined();
});

const outcomes: readonly TurnOutcome[] = [
  { status: 'running' },
  { status: 'completed', payload: '1' },
];
const ok = String.raw`WHERE \(SELECT ok FROM verdict\)`;
const ofBoth = [
  { demands: 'no pause', find: /instance\.paused_at IS NULL/, replace: 'TRUE' },
  { demands: 'the token', find: /claim\.lock_token = turn\.secret/, replace: 'TRUE' },
  {
    demands: 'events that follow the history',
    find: /instance\.history_length = turn\.first_event_id - 1/,
    replace: 'TRUE',
  },
  {
    demands: 'the version',
    find: /turn\.version = \(\s*SELECT version FROM \S+\.definitions AS definition\s+WHERE definition\.definition_key = instance\.definition_key\)/,
    replace: 'TRUE',
  },
  { demands: 'no children', find: /NOT instance\.has_children/, replace: 'TRUE' },
  {
    demands: 'every turn passes',
    find: /\(SELECT count\(\*\) FROM turn\) = cardinality\(\$2::bigint\[\]\)/,
    replace: 'TRUE',
  },
  {
    demands: 'all checks before events are recorded',
    find: new RegExp(
      String.raw`(?<=AS event \([^)]+\)\s+JOIN [^)]+\) AS owner ON owner_key = instance_key\s+)${ok}`,
    ),
    replace: '',
  },
  {
    demands: 'all checks before the instance is written',
    find: new RegExp(String.raw`${ok}(?= AND instance\.ctid)`),
    replace: 'WHERE TRUE',
  },
];
const selectionsOfBoth = [
  {
    find: /one\.instance_key = turn\.instance_key LIMIT 1/,
    times: 2,
    because: 'joins the instance and its claim',
  },
  { find: /instance\.ctid = turn\.row_id/, because: 'joins the instance to its turn' },
];

describePath({
  name: 'perdure_commit_claimed_turns',
  run: (which) =>
    run(
      states
        .filter(({ changes }) => which === 'all' || changes < 2)
        .flatMap((one) => outcomes.map((outcome) => ({ ...one, outcome }))),
      SingleStatementClaimedTurns,
      running,
    ),
  commits: 9,
  fences: [
    ...ofBoth,
    {
      demands: 'a live instance that is not asked to stop',
      find: /\(instance\.status = 'running' OR instance\.status = 'pending'\)/,
      replace: 'TRUE',
    },
    {
      demands: 'a live lease',
      find: /claim\.locked_until > \(SELECT now FROM drawn\)/,
      replace: 'TRUE',
    },
    {
      demands: 'no other message',
      find: /turn\.messages = \(\s*SELECT count\(\*\) FROM \(SELECT 1 FROM \S+\.orchestrator_queue AS message\s+WHERE message\.instance_key = turn\.instance_key LIMIT turn\.messages \+ 1\) AS found\)/,
      replace: 'TRUE',
    },
    {
      demands: 'no items at the end',
      find: /\(\s*SELECT 1 FROM \S+\.worker_queue AS item WHERE item\.instance_key = turn\.instance_key LIMIT 1\) IS NULL/,
      replace: 'TRUE',
    },
    {
      demands: 'messages of the instance',
      find: /one\.instance_key = read\.owner_key(?= LIMIT 1)/,
      replace: 'TRUE',
    },
    {
      demands: 'every message passes',
      find: /\) = cardinality\(\$\d+::bigint\[\]\)(?=\s+AND NOT EXISTS)/,
      replace: ') IS NOT NULL',
    },
    {
      demands: 'all checks before messages are deleted',
      find: new RegExp(`${ok}(?= AND message_key)`),
      replace: 'WHERE TRUE',
    },
    {
      demands: 'all checks before claims are released',
      find: new RegExp(`${ok}(?= AND ctid)`),
      replace: 'WHERE TRUE',
    },
    {
      demands: 'all checks before activities are scheduled',
      find: new RegExp(
        String.raw`(?<=claimed_by, place\)\s+JOIN [^)]+\) AS owner ON owner_key = instance_key\s+)${ok}`,
      ),
      replace: '',
    },
  ],
  selections: [
    ...selectionsOfBoth,
    limitedItems,
    limitKeys,
    { find: /\(turn\.status = 'running' OR/, because: 'begins the demands of an end' },
    { find: /one\.message_key = read\.message_key/, because: 'joins the message' },
    {
      find: /AND \(SELECT count\(\*\) FROM unnest\(/,
      because: 'begins the demands of the messages',
    },
    {
      find: /NOT EXISTS \(SELECT FROM \S+\.paused_definitions\) AS ok/,
      because: 'excludes pauses of definitions, which have a test of their own',
    },
    { find: /message_key = ANY \(\$\d+::bigint\[\]\)/, because: 'names the messages to delete' },
    {
      find: /ctid = ANY \(ARRAY\(SELECT claim_id FROM turn\)\)/,
      because: 'names the claims to release',
    },
    { find: /ON owner_key = instance_key/, times: 2, because: 'joins the execution' },
    { find: /ended_at IS NOT NULL/, times: 4, because: 'reads which instances have ended' },
    {
      find: /instance_key = ANY \(ARRAY\(SELECT instance_key FROM committed/,
      because: 'names the instances that have ended',
    },
  ],
});

describePath({
  name: 'perdure_commit_canceled_turns',
  run: (which) =>
    run(
      canceledStates
        .filter(({ changes }) => which === 'all' || changes < 2)
        .map((one) => ({
          ...one,
          outcome: { status: 'canceled', reason: 'asked', cleanupSkipped: false },
        })),
      SingleStatementCanceledTurns,
      { ...running, status: 'canceling' },
    ),
  commits: 6,
  fences: [
    ...ofBoth,
    {
      demands: 'an instance that is asked to stop',
      find: /instance\.status = 'canceling'/,
      replace: 'TRUE',
    },
    { demands: 'no recorded end', find: /instance\.closing_reason IS NULL/, replace: 'TRUE' },
    {
      demands: 'a live lease',
      find: new RegExp(String.raw`claim\.locked_until > ${literally(nowSql)}`),
      replace: 'TRUE',
    },
    { demands: 'no parent', find: /instance\.parent_instance_id IS NULL/, replace: 'TRUE' },
    { demands: 'no item that goes on', find: /item\.cancellation <> 'abandon'/, replace: 'TRUE' },
    {
      demands: 'items that were asked to stop',
      find: /item\.cancel_requested_at IS NOT NULL/,
      replace: 'TRUE',
    },
    {
      demands: 'items that workers hold',
      find: /\(item\.locked_until > (?:(?! IS TRUE).)+ IS TRUE/,
      replace: 'TRUE',
    },
    { demands: 'all demands of the items', find: /AND items\.are_asked/, replace: '' },
    {
      demands: 'all checks before messages and claims are deleted',
      find: new RegExp(`${ok}(?= AND instance_key = ANY)`),
      times: 2,
      replace: 'WHERE TRUE',
    },
  ],
  selections: [
    ...selectionsOfBoth,
    {
      find: /item\.instance_key = turn\.instance_key/,
      because: 'finds the items of the instance',
    },
    {
      find: /instance_key = ANY \(ARRAY\(SELECT instance_key FROM turn\)\)/,
      times: 2,
      because: 'names the messages and the claims of the instances',
    },
    { find: /ON owner_key = instance_key/, because: 'joins the execution' },
    { find: /ended_at IS NOT NULL/, times: 2, because: 'reads which instances have ended' },
    {
      find: /instance_key = ANY \(ARRAY\(SELECT instance_key FROM committed/,
      because: 'names the instances that have ended',
    },
  ],
});
