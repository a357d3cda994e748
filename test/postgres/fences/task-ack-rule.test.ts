/**
 * The single-statement task ack against the rules of the general path. The path must not end a run whose item is not
 * claimed by the token (`isClaimed`), or that has ended or was asked to stop (`planCancel`).
 */
import { expect, it } from 'vitest';
import type { WorkItemAck } from '../../../src/providers/contract/work-queue.ts';
import { SingleStatementTaskAcks } from '../../../src/providers/postgres/single-statement/tasks.ts';
import { newTaskSecret } from '../../../src/providers/postgres/tables/work-items.ts';
import { isHeldBy } from '../../../src/providers/rules/claims.ts';
import { planCancel } from '../../../src/providers/rules/stops.ts';
import { Secrets } from '../../../src/providers/shared/lock-token.ts';
import { onFailOperation, taskOperation } from '../../../src/providers/shared/work-item-row.ts';
import { applyMutation } from './mutation.ts';
import {
  definitionKeys,
  keysPerTrial,
  openPathDatabase,
  runTrials,
  withinTwoChanges,
  type TrialReport,
} from './path-trial.ts';
import { taskAckFences } from './task-ack-fences.ts';

const now = 1_000;
const secrets = new Secrets();
const held = newTaskSecret(secrets.next());

interface State {
  /** A claimed run keeps the status `pending`. */
  readonly status: 'pending' | 'canceling' | 'terminated' | 'failed';
  readonly operation: number;
  readonly isMissing: boolean;
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly cancelRequested: boolean;
  readonly failures: number;
}

const expected: State = {
  status: 'pending',
  operation: taskOperation,
  isMissing: false,
  lockToken: held,
  lockedUntil: now + 1,
  cancelRequested: false,
  failures: 0,
};

const set = (parts: Partial<State>) => (state: State) => ({ ...state, ...parts });
const states = withinTwoChanges(expected, [
  {
    'a canceled run': set({ status: 'canceling', cancelRequested: true }),
    'a terminated run': set({ status: 'terminated' }),
    'an on-fail handler': set({ status: 'failed', operation: onFailOperation }),
  },
  { 'a deleted item': set({ isMissing: true }) },
  {
    'an expired item': set({ lockedUntil: now }),
    'a released item': set({ lockToken: null, lockedUntil: null }),
  },
  { 'an item of another worker': set({ lockToken: newTaskSecret(secrets.next()) }) },
  { 'a retried run': set({ failures: 2 }) },
]).map((one) => ({
  ...one,
  // Either both are NULL or none.
  state: one.state.lockedUntil === null ? { ...one.state, lockToken: null } : one.state,
}));
const outcomes = [{ kind: 'completed', payload: '1' }, { kind: 'skipped' }] as const;
const trials = states.flatMap((one) => outcomes.map((outcome) => ({ ...one, outcome })));

function isAllowed(state: State): boolean {
  const isHeld = !state.isMissing && isHeldBy(state, held, now);
  return isHeld && planCancel({ status: state.status, isTask: true }) !== 'none';
}

/** Acks each run in a batch with a run that can end. */
async function run(): Promise<TrialReport> {
  const database = await openPathDatabase();
  const rows = trials.flatMap(({ state }, index) => [
    { instanceKey: keysPerTrial * index + 1, state },
    { instanceKey: keysPerTrial * index + 2, state: expected },
  ]);
  const endOf = (state: State, status: string) => (state.status === status ? 2 : null);
  await database.insert(
    'instances',
    rows.map(({ instanceKey, state }) => ({
      instance_key: instanceKey,
      instance_id: `run ${instanceKey}`,
      incarnation: 'i1',
      definition_key: definitionKeys.task,
      status: state.status,
      execution_id: 1,
      history_length: 0,
      input_hash: 'hash',
      created_at: 1,
      priority: 0,
      ended_at: endOf(state, 'terminated') ?? endOf(state, 'failed'),
      terminated_at: endOf(state, 'terminated'),
      failed_at: endOf(state, 'failed'),
    })),
  );
  await database.insert(
    'worker_queue',
    rows
      .filter(({ state }) => !state.isMissing)
      .map(({ instanceKey, state }) => ({
        item_key: instanceKey,
        instance_key: instanceKey,
        execution_id: 1,
        operation: state.operation,
        definition_key: definitionKeys.task,
        next_at: 1,
        claims: 1,
        created_at: 1,
        started_at: 1,
        lock_token: state.lockToken,
        locked_until: state.lockedUntil,
        cancel_requested: state.cancelRequested,
        failures: state.failures,
      })),
  );
  const path = new SingleStatementTaskAcks(database.parts);
  return runTrials(
    database,
    trials.map(({ title, state, outcome }, index) => ({
      title: `${title}, ${outcome.kind}`,
      isAllowed: isAllowed(state),
      run: () => {
        const ackOf = (place: number): WorkItemAck => ({
          lockToken: `${keysPerTrial * index + place}.${held}`,
          outcome,
        });
        return path.settle([ackOf(1), ackOf(2)], now);
      },
    })),
  );
}

it('the single-statement task ack ends only runs that the rules allow', async () => {
  const { committed, forbidden, breaches, errors } = await run();
  expect(breaches).toEqual([]);
  expect(errors).toEqual([]);
  expect(committed).toBe(4);
  expect(forbidden).toBe(trials.length - 4);
});

// The rules allow the end of a paused run. The general path ends it, because it also lifts the pause.
const ruledFences = taskAckFences.fences.filter(({ demands }) => !demands.includes('paused'));

it.each(ruledFences)(
  'a task ack that does not demand $demands violates the rules',
  async (fence) => {
    const sent = applyMutation({ ...fence, statement: taskAckFences.name });
    const { breaches, errors } = await run();
    expect(sent()).toBeGreaterThan(0);
    // The path throws if the statement does not return a run of the batch.
    expect(errors.filter((error) => !error.includes('did not return the run'))).toEqual([]);
    expect(breaches).not.toEqual([]);
  },
);
