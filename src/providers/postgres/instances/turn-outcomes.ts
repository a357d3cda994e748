import { queueKey } from '../../rules/pauses.ts';
import { customStatusVersions, mayHaveMessages } from '../../rules/turns.ts';
import type { Turn, TurnOutcome } from '../../contract/turn.ts';
import type { Batch } from '../batches/batch.ts';
import { ownOutput, type InstanceRow, type TurnRow } from '../tables/instance-rows.ts';
import type { Scope } from '../driver/scope.ts';
import type { NamedKeys, TurnCommit } from './turns.ts';

/** An execution that a turn has ended, with the cancel reasons of its items and children. */
export interface Ending {
  readonly target: InstanceRow;
  readonly items: string;
  readonly children: string;
  readonly cleanupMs: number;
  readonly mayHaveChildren: boolean;
}

/** Plans the state after a turn. Returns the execution that the turn ended, if any. */
export function applyOutcome(
  batch: Batch,
  commit: TurnCommit,
  { nameOf, keyOf }: NamedKeys,
): Ending | undefined {
  const { instances, changes, scope } = batch;
  const { target, turn, hasLockRow } = commit;
  const { outcome } = turn;
  const hasMessages = mayHaveMessages({ status: target.status, hasLockRow }, turn);
  const name = nameOf(target);
  const definitionKey = keyOf('orchestration', name, turn.version);
  const row = toTurnRow(target, turn, definitionKey);
  changes.turns.push(row);
  const { instanceKey } = target;
  const status = instances.get(instanceKey)?.status === 'canceling' ? 'canceling' : 'running';
  const { historyLength, turnId: lastTurn } = row;
  const hasChildren = target.hasChildren || row.hasChildren;
  instances.update(instanceKey, { status, definitionKey, historyLength, lastTurn, hasChildren });
  switch (outcome.status) {
    case 'running':
      if (commit.keep === 'reset') {
        changes.kept.push({ instanceKey, definitionKey: queueKey(definitionKey, target.isPaused) });
      }
      if (commit.keep === undefined && hasMessages) changes.release(target, definitionKey);
      return undefined;
    case 'completed':
    case 'failed':
      instances.update(instanceKey, { status: outcome.status });
      if (target.isPaused) changes.liftedPauses.push(instanceKey);
      if (hasMessages) changes.forget(instanceKey);
      notifyEnd(scope, target, outcome);
      return ending(commit, { items: outcome.status, children: `parent ${outcome.status}` });
    case 'canceled': {
      const { reason, cleanupSkipped } = outcome;
      changes.closings.push({ instanceKey, reason, cleanupSkipped });
      if (target.isPaused) changes.liftedPauses.push(instanceKey);
      instances.update(instanceKey, { status: 'canceling', closingReason: reason });
      changes.forget(instanceKey);
      return ending(commit, { items: reason, children: reason });
    }
    case 'continuedAsNew': {
      const { executionId } = target;
      const nextKey = keyOf('orchestration', name, outcome.version);
      changes.continuations.push({ instanceKey, executionId, nextKey, start: outcome.start });
      changes.release(target, nextKey);
      const next = { executionId: executionId + 1, historyLength: 0, lastTurn: null };
      instances.update(instanceKey, { ...next, definitionKey: nextKey });
      return ending(commit, { items: 'continued as new', children: 'parent continued as new' });
    }
  }
}

function notifyEnd(
  { effects }: Scope,
  { instanceId, incarnation }: InstanceRow,
  outcome: Extract<TurnOutcome, { status: 'completed' | 'failed' }>,
): void {
  if (outcome.status === 'failed') effects.finished.push(instanceId);
  else effects.completed(instanceId, { incarnation, output: outcome.payload });
}

function ending(
  { target, turn }: TurnCommit,
  why: { readonly items: string; readonly children: string },
): Ending {
  const mayHaveChildren = target.hasChildren || turn.children.length > 0;
  return { target, ...why, cleanupMs: turn.cleanupMs, mayHaveChildren };
}

function toTurnRow(target: InstanceRow, turn: Turn, definitionKey: number): TurnRow {
  const { outcome, bufferedEvents, customStatus } = turn;
  return {
    instanceKey: target.instanceKey,
    status: rowStatus(outcome),
    definitionKey,
    turnId: turn.turnId,
    historyLength: target.historyLength + turn.events.length,
    output: ownOutput(turn),
    failure: outcome.status === 'failed' ? outcome.failure : null,
    hasChildren: turn.children.length > 0,
    bufferedEvents: bufferedEvents ?? null,
    ...(customStatus !== undefined && { customStatus }),
    statusVersions: customStatusVersions(turn),
  };
}

function rowStatus({ status }: TurnOutcome): TurnRow['status'] {
  return status === 'completed' || status === 'failed' ? status : 'running';
}
