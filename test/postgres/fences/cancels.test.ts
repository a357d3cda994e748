/** The cancel of running orchestrations in one statement. */
import type { InstanceStatus } from '../../../src/model/status.ts';
import type { CancelInstance } from '../../../src/providers/contract/cancellation.ts';
import { SingleStatementCancels } from '../../../src/providers/postgres/single-statement/cancel-requests.ts';
import { planCancel, planItemCancel } from '../../../src/providers/rules/stops.ts';
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

interface Item {
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly cancellation: 'request' | 'abandon';
  readonly shielded: boolean;
  readonly pointOfNoReturn: boolean;
  readonly cancelRequested: boolean;
  readonly cancelRequestedAt: number | null;
}

interface State {
  readonly status: InstanceStatus;
  readonly isTask: boolean;
  readonly incarnation: string;
  readonly isPaused: boolean;
  readonly item: Item | null;
}

const held: Item = {
  lockToken: 'held',
  lockedUntil: now + 1,
  cancellation: 'request',
  shielded: false,
  pointOfNoReturn: false,
  cancelRequested: false,
  cancelRequestedAt: null,
};
const running: State = {
  status: 'running',
  isTask: false,
  incarnation: 'i1',
  isPaused: false,
  item: held,
};
const set = (parts: Partial<State>) => (state: State) => ({ ...state, ...parts });
const item = (parts: Partial<Item>) => (state: State) => ({
  ...state,
  item: { ...(state.item ?? held), ...parts },
});
const states = withinTwoChanges<State>(running, [
  {
    pending: set({ status: 'pending' }),
    canceling: set({ status: 'canceling' }),
    completed: set({ status: 'completed' }),
  },
  { 'a task run': set({ isTask: true }) },
  { 'another incarnation': set({ incarnation: 'i2' }) },
  { 'a pause': set({ isPaused: true }) },
  { 'no item': set({ item: null }) },
  {
    'a released item': item({ lockToken: null, lockedUntil: null }),
    'an expired item': item({ lockedUntil: now }),
  },
  { 'an abandoned item': item({ cancellation: 'abandon' }) },
  { 'a shielded item': item({ shielded: true }) },
  { 'an item past its point of no return': item({ pointOfNoReturn: true }) },
  { 'a flagged item': item({ cancelRequested: true, cancelRequestedAt: 1 }) },
]);

function requestOf(instanceKey: number): CancelInstance {
  return {
    instanceId: `instance ${instanceKey}`,
    incarnation: 'i1',
    reason: 'asked',
    actor: null,
    cleanupMs: 10,
    key: `key ${instanceKey}`,
  };
}

/** Whether the general path makes the instance canceling and flags its item, and writes nothing else. */
function isAllowed(state: State): boolean {
  const isPlain = planCancel(state) === 'request' && state.incarnation === 'i1' && !state.isPaused;
  return isPlain && (state.item === null || planItemCancel(state.item, 'request', now) === 'flag');
}

async function insertStates(
  { insert }: PathDatabase,
  instances: readonly { readonly instanceKey: number; readonly state: State }[],
): Promise<void> {
  await insert(
    'instances',
    instances.map(({ instanceKey, state }) => ({
      instance_key: instanceKey,
      instance_id: `instance ${instanceKey}`,
      incarnation: state.incarnation,
      definition_key: state.isTask ? definitionKeys.task : definitionKeys.orchestration,
      status: state.status,
      priority: state.isTask ? 0 : null,
      execution_id: 1,
      history_length: 1,
      paused_at: state.isPaused ? 1 : null,
      input_hash: 'hash',
      created_at: 1,
      cancel_requested_at: state.status === 'canceling' ? 1 : null,
      cancel_reason: state.status === 'canceling' ? 'first' : null,
      ended_at: state.status === 'completed' ? 2 : null,
      completed_at: state.status === 'completed' ? 2 : null,
    })),
  );
  await insert(
    'worker_queue',
    instances.flatMap(({ instanceKey, state: { item: one } }) =>
      one === null
        ? []
        : [
            {
              item_key: instanceKey,
              instance_key: instanceKey,
              execution_id: 1,
              operation: 1,
              definition_key: definitionKeys.activity,
              next_at: 1,
              claims: 1,
              created_at: 1,
              lock_token: one.lockToken,
              locked_until: one.lockedUntil,
              cancellation: one.cancellation,
              shielded: one.shielded,
              point_of_no_return: one.pointOfNoReturn,
              cancel_requested: one.cancelRequested,
              cancel_requested_at: one.cancelRequestedAt,
            },
          ],
    ),
  );
}

/** Sends each request in a batch with one that is allowed. */
async function run(which: 'all' | 'single'): Promise<TrialReport> {
  const trials = states.filter(({ changes }) => which === 'all' || changes < 2);
  const database = await openPathDatabase();
  const path = new SingleStatementCancels(database.parts);
  await insertStates(
    database,
    trials.flatMap(({ state }, index) => [
      { instanceKey: keysPerTrial * index, state },
      { instanceKey: keysPerTrial * index + 1, state: running },
    ]),
  );
  return runTrials(
    database,
    trials.map(({ title, state }, index) => ({
      title,
      isAllowed: isAllowed(state),
      run: () =>
        path.cancel(
          [0, 1].map((place) => requestOf(keysPerTrial * index + place)),
          now,
        ),
    })),
  );
}

const ok = String.raw`WHERE \(SELECT ok FROM verdict\)`;
const ofItem = (demands: string, find: RegExp) => ({ demands, find, replace: 'FALSE' });

describePath({
  name: 'perdure_cancel_plainly',
  run,
  commits: 2,
  fences: [
    { demands: 'a running instance', find: /instance\.status = 'running'/, replace: 'TRUE' },
    { demands: 'an orchestration', find: /instance\.priority IS NULL/, replace: 'TRUE' },
    { demands: 'no pause', find: /instance\.paused_at IS NULL/, replace: 'TRUE' },
    {
      demands: 'the incarnation',
      find: /coalesce\(request\.incarnation, instance\.incarnation\) = instance\.incarnation/,
      replace: 'TRUE',
    },
    ofItem('no item that goes on', /item\.cancellation = 'abandon'/),
    ofItem('no shielded item', /item\.shielded/),
    ofItem('no item past its point of no return', /item\.point_of_no_return/),
    ofItem('no item that was asked before', /item\.cancel_requested_at IS NOT NULL/),
    ofItem('items that workers hold', /\(item\.locked_until > (?:(?! IS NOT TRUE).)+ IS NOT TRUE/),
    {
      demands: 'every request passes',
      find: /\(SELECT count\(\*\) FROM asked\) = cardinality\(\$2::text\[\]\)/,
      replace: 'TRUE',
    },
    {
      demands: 'all checks before the instance is written',
      find: new RegExp(String.raw`${ok}(?= AND instance\.ctid)`),
      replace: 'WHERE TRUE',
    },
    {
      demands: 'all checks before items are flagged',
      find: new RegExp(String.raw`${ok}(?= AND item\.ctid)`),
      replace: 'WHERE TRUE',
    },
    {
      demands: 'all checks before messages are sent',
      find: new RegExp(String.raw`(?<=payload FROM asked )${ok}`),
      times: 2,
      replace: '',
    },
    {
      demands: 'all checks before the clean-up is limited',
      find: new RegExp(String.raw`(?<=, 0 FROM asked )${ok}`),
      replace: '',
    },
    {
      demands: 'all checks before a key is recorded',
      find: new RegExp(String.raw`${ok}(?= AND stop_key)`),
      replace: 'WHERE TRUE',
    },
  ],
  selections: [
    { find: /one\.instance_id = request\.instance_id LIMIT 1/, because: 'joins the instance' },
    {
      find: /\(SELECT 1 FROM \S+\.worker_queue AS item WHERE item\.instance_key = instance\.instance_key\s+AND \(/,
      because: 'finds the items of the instance',
    },
    { find: /instance\.ctid = asked\.row_id/, because: 'joins the instance to its request' },
    {
      find: /one\.instance_key = asked\.instance_key OFFSET 0/,
      times: 2,
      because: 'finds the items to flag, and counts them',
    },
    { find: /item\.ctid = found\.row_id/, because: 'joins the item' },
    { find: /CONFLICT \(instance_key\) DO UPDATE/, because: 'names the row of the instance' },
    {
      find: /WHERE ok(?=\s+\))/,
      because: 'rolls back a write that lost a race; see the statement',
    },
    {
      find: /\(SELECT count\(\*\) FROM flagged\)/,
      because: 'rolls back a write that missed an item; tested in held-rows.test.ts',
    },
    { find: /stop_key IS NOT NULL/, because: 'a request without a key is not recorded' },
    { find: /ON flagged\.place = asked\.place/, because: 'joins the flagged items' },
  ],
});
