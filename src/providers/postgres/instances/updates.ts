import type {
  AnswerResult,
  AwakeableAnswer,
  NewUpdate,
  RequestUpdateResult,
  UpdateStore,
} from '../../contract/updates.ts';
import { existingUpdate, keptUpdates, maxOpenUpdates, updateState } from '../../rules/updates.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Scope } from '../driver/scope.ts';
import type { AwakeableRows } from '../tables/awakeable-rows.ts';
import type { DedupeKeys } from '../tables/dedupe-keys.ts';
import type { History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import { isOver, type InstanceRow, type InstanceRows } from '../tables/instance-rows.ts';
import type { Messages } from '../tables/messages.ts';
import type { PauseRows } from '../tables/pause-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';
import type { TaskRows } from '../tables/task-rows.ts';
import type { NewUpdateRow, UpdateRows } from '../tables/update-rows.ts';

/** The parts of the store that updates and awakeables use. */
interface UpdateParts extends StoreAccess {
  readonly awakeableRows: AwakeableRows;
  readonly dedupeKeys: DedupeKeys;
  readonly history: History;
  readonly instances: InstanceRows;
  readonly locks: InstanceLocks;
  readonly messages: Messages;
  readonly pauseRows: PauseRows;
  readonly stopRows: StopRows;
  readonly taskRows: TaskRows;
  readonly updateRows: UpdateRows;
}

/** Requests updates, and answers awakeables. */
export function createUpdateStore(store: UpdateParts): UpdateStore {
  return {
    requestUpdates: store.batching({
      operation: 'requestUpdates',
      run: (scope, requests: readonly NewUpdate[]) => request(store, scope, requests),
      maxInFlight: 1,
    }),

    async readUpdates(updates) {
      if (updates.length === 0) return [];
      const rows = await store.read('readUpdates', (tx) => store.updateRows.read(tx, updates));
      const byPlace = new Map(rows.map((row) => [Number(row.place), row]));
      return updates.map((_, index) => {
        const row = byPlace.get(index + 1);
        return row === undefined ? { kind: 'missing' } : updateState(row, row);
      });
    },

    answerAwakeables: store.batching({
      operation: 'answerAwakeables',
      run: (scope, answers: readonly AwakeableAnswer[]) => answer(store, scope, answers),
      maxInFlight: 1,
    }),
  };
}

async function request(
  store: UpdateParts,
  scope: Scope,
  requests: readonly NewUpdate[],
): Promise<readonly RequestUpdateResult[]> {
  const { tx } = scope;
  const batch = store.newBatch(scope);
  const ids = [...new Set(requests.map(({ instanceId }) => instanceId))];
  await scope.begin(batch.instances.lock({ ids }));
  const receivers = ids.flatMap((id) => batch.instances.find(id) ?? []);
  const instanceKeys = receivers.map(({ instanceKey }) => instanceKey);
  const wanted = requests.flatMap(({ instanceId, key: updateKey }) => {
    const instanceKey = batch.instances.find(instanceId)?.instanceKey;
    return instanceKey === undefined ? [] : [{ instanceKey, updateKey }];
  });
  const [found, counted] = await Promise.all([
    store.updateRows.find(tx, wanted),
    store.updateRows.count(tx, instanceKeys, maxOpenUpdates),
  ]);
  const existing = new Map(found.map((row) => [placeOf(row), row]));
  const counts = new Map(counted.map((row) => [row.instanceKey, row]));
  const rows: NewUpdateRow[] = [];
  const results = requests.map((one): RequestUpdateResult => {
    const receiver = batch.instances.find(one.instanceId);
    const instanceKey = receiver?.instanceKey ?? 0;
    const place = placeOf({ instanceKey, updateKey: one.key });
    const result = existingUpdate(one, existing.get(place), receiver && toReceiver(receiver));
    if (receiver === undefined || result !== undefined) return result ?? { kind: 'missing' };
    const { open, lastSeq } = counts.get(instanceKey) ?? { open: 0, lastSeq: 0 };
    if (open >= maxOpenUpdates) return { kind: 'full' };
    const { key: updateKey, name, inputHash } = one;
    const seq = lastSeq + 1;
    const row = { instanceKey, updateKey, name, inputHash };
    rows.push({ ...row, seq });
    // A later request of the batch may have the same key.
    existing.set(place, { ...row, outcome: null, reply: null, failure: null });
    counts.set(instanceKey, { instanceKey, open: open + 1, lastSeq: seq });
    batch.changes.send(scope, receiver, one.message);
    return { kind: 'pending' };
  });
  await store.updateRows.insert(tx, rows, scope.now);
  await store.updateRows.trim(
    tx,
    [...counts.values()]
      .filter(({ instanceKey, lastSeq }) =>
        rows.some((row) => row.instanceKey === instanceKey && lastSeq > keptUpdates),
      )
      .map(({ instanceKey, lastSeq }) => ({ instanceKey, seq: lastSeq - keptUpdates })),
  );
  await batch.changes.write(scope, store);
  return results;
}

async function answer(
  store: UpdateParts,
  scope: Scope,
  answers: readonly AwakeableAnswer[],
): Promise<readonly AnswerResult[]> {
  const { tx } = scope;
  const batch = store.newBatch(scope);
  const tokenHashes = [...new Set(answers.map(({ tokenHash }) => tokenHash))];
  await scope.begin();
  const named = await store.awakeableRows.find(tx, tokenHashes);
  await batch.instances.lock({ keys: [...new Set(named.map(({ instanceKey }) => instanceKey))] });
  // Read again under the locks: the instance may have been answered, continued or deleted meanwhile.
  const rows = named.length === 0 ? [] : await store.awakeableRows.find(tx, tokenHashes);
  const byHash = new Map(rows.map((row) => [row.tokenHash, row]));
  const answered: { readonly tokenHash: string; readonly answerKey: string }[] = [];
  const results = answers.map(({ tokenHash, answerKey, message }): AnswerResult => {
    const row = byHash.get(tokenHash);
    if (row === undefined) return 'missing';
    if (row.answerKey !== null) return row.answerKey === answerKey ? 'answered' : 'already';
    const { executionId, operation } = row;
    const receiver = batch.instances.get(row.instanceKey);
    if (receiver === undefined || isOver(receiver) || receiver.executionId !== executionId) {
      return 'missing';
    }
    byHash.set(tokenHash, { ...row, answerKey });
    answered.push({ tokenHash, answerKey });
    batch.changes.send(scope, receiver, { ...message, executionId, operation });
    return 'answered';
  });
  await store.awakeableRows.answer(tx, answered);
  await batch.changes.write(scope, store);
  return results;
}

function placeOf({ instanceKey, updateKey }: Pick<NewUpdateRow, 'instanceKey' | 'updateKey'>) {
  return `${instanceKey} ${updateKey}`;
}

function toReceiver(row: InstanceRow) {
  return { status: row.status, isOver: isOver(row) };
}
