import type {
  AnswerResult,
  AwakeableAnswer,
  NewUpdate,
  RequestUpdateResult,
  UpdateState,
  UpdateStore,
} from '../../contract/updates.ts';
import { existingUpdate, maxOpenUpdates, updateState } from '../../rules/updates.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { AwakeableRows } from '../tables/awakeable-rows.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { Messages } from '../tables/messages.ts';
import type { UpdateReceiverRow, UpdateRows } from '../tables/update-rows.ts';

/** The parts of the store that updates and awakeables use. */
interface UpdateParts extends StoreAccess {
  readonly awakeableRows: AwakeableRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly updateRows: UpdateRows;
}

/** Requests updates, and answers awakeables. */
export function createUpdateStore(store: UpdateParts): UpdateStore {
  return {
    requestUpdates: (requests) =>
      store.write('requestUpdates', requests, (scope, one) => request(store, scope, one)),

    readUpdates: (updates) =>
      store.read('readUpdates', () => updates.map((one) => readState(store, one))),

    answerAwakeables: (answers) =>
      store.write('answerAwakeables', answers, (scope, one) => answer(store, scope, one)),
  };
}

function request(store: UpdateParts, scope: Scope, wanted: NewUpdate): RequestUpdateResult {
  const { updateRows } = store;
  const row = updateRows.findReceiver(wanted.instanceId);
  const existing = row && updateRows.find(row.instanceKey, wanted.key);
  const result = existingUpdate(wanted, existing, row && toReceiver(row));
  if (row === undefined || result !== undefined) return result ?? { kind: 'missing' };
  if (updateRows.isFull(row.instanceKey, maxOpenUpdates)) return { kind: 'full' };
  updateRows.insert(row.instanceKey, wanted, scope.now);
  send(store, scope, row, wanted.message);
  return { kind: 'pending' };
}

function readState(
  { updateRows }: UpdateParts,
  { instanceId, key }: { readonly instanceId: string; readonly key: string },
): UpdateState {
  const row = updateRows.findReceiver(instanceId);
  const update = row && updateRows.find(row.instanceKey, key);
  if (row === undefined || update === undefined) return { kind: 'missing' };
  return updateState(update, toReceiver(row));
}

function answer(store: UpdateParts, scope: Scope, given: AwakeableAnswer): AnswerResult {
  const { tokenHash, answerKey, message } = given;
  const awakeable = store.awakeableRows.find(tokenHash);
  if (awakeable === undefined) return 'missing';
  if (awakeable.answerKey !== null) {
    return awakeable.answerKey === answerKey ? 'answered' : 'already';
  }
  const { instanceKey, executionId, operation } = awakeable;
  const row = store.updateRows.getReceiver(instanceKey);
  if (row?.isOver !== 0 || row.executionId !== executionId) return 'missing';
  store.awakeableRows.answer(tokenHash, answerKey);
  send(store, scope, row, { ...message, executionId, operation });
  return 'answered';
}

function send(
  { messages, locks }: UpdateParts,
  { now, effects }: Scope,
  { instanceKey, definitionKey }: UpdateReceiverRow,
  message: NewUpdate['message'],
): void {
  messages.insert(instanceKey, message, now);
  locks.touch(instanceKey, definitionKey, now);
  effects.due('orchestrations', now);
}

function toReceiver({ status, isOver }: UpdateReceiverRow) {
  return { status, isOver: isOver === 1 };
}
