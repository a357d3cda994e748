import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { isPerdureError, LockLostError } from '../../../../model/failures/errors.ts';
import type { StoreTransaction } from '../../../../model/store-transaction.ts';
import { randomToken } from '../../../../model/values/random-id.ts';
import type {
  TransactionAck,
  TransactRequest,
} from '../../../../providers/contract/transactional.ts';
import type { CommitResult } from '../../../../providers/contract/turn.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted } from '../../expectations.ts';
import { event, newTurn, raised, workItem } from '../../sample-data.ts';
import { labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import { createTask } from '../../task-helpers.ts';
import { withTimeLimit } from '../../time-limit.ts';

const done = { kind: 'completed', payload: '"done"' } as const;

/** Runs a transaction. A provider without `transact` must skip these cases. */
function transact(store: StoreUnderTest, request: TransactRequest): Promise<CommitResult> {
  const { provider } = store;
  assert.ok(
    provider.transact,
    'This case requires `transact`. Implement it, or skip the case with a reason.',
  );
  return provider.transact(request);
}

/** A store ignores the instance of an ack. */
const instanceId = 'a';

/** Acks a work item. */
function ackOf(lockToken: string): TransactionAck {
  return { kind: 'workItem', ack: { instanceId, lockToken, outcome: done } };
}

/** Acks work items together, unless one was asked to stop. */
function acksOf(lockTokens: readonly string[]): TransactionAck {
  const acks = lockTokens.map((lockToken) => ({
    ack: { instanceId, lockToken, outcome: done },
    unlessCanceled: true,
  }));
  return { kind: 'workItems', acks };
}

/** Creates task runs and claims them. Returns their tokens in the order of the ids. */
async function claimTasks(
  store: StoreUnderTest,
  ids: readonly string[],
): Promise<readonly string[]> {
  const tokens: string[] = [];
  for (const id of ids) {
    await createTask(store, id);
    tokens.push((await store.claimWorkOne()).lockToken);
  }
  return tokens;
}

/** A table of the application, with one column. */
class NotesTable {
  readonly #store: StoreUnderTest;
  readonly #name = `notes_${randomToken().replaceAll(/\W/g, '_')}`.toLowerCase();

  private constructor(store: StoreUnderTest) {
    this.#store = store;
  }

  /** Creates the table within the ack of a task run. */
  static async create(store: StoreUnderTest): Promise<NotesTable> {
    const table = new NotesTable(store);
    await createTask(store, `create ${table.#name}`);
    const { lockToken } = await store.claimWorkOne();
    expectCommitted(
      await transact(store, {
        write: async (tx) => {
          await tx.query(`CREATE TABLE ${table.#name} (note text)`);
          return ackOf(lockToken);
        },
      }),
    );
    return table;
  }

  async insert(tx: StoreTransaction, note: string): Promise<void> {
    const { rowCount } = await tx.query(`INSERT INTO ${this.#name} VALUES ($1)`, [note]);
    assert.equal(rowCount, 1);
  }

  /** Reads the committed notes. */
  async read(): Promise<readonly unknown[]> {
    let notes: readonly unknown[] = [];
    const stop = new Error('nothing to write');
    const outcome = await transact(this.#store, {
      write: async (tx) => {
        const { rows } = await tx.query<{ note: string }>(
          `SELECT note FROM ${this.#name} ORDER BY note`,
        );
        notes = rows.map(({ note }) => note);
        throw stop;
      },
    }).catch((error: unknown) => error);
    assert.equal(outcome, stop);
    return notes;
  }
}

/** An instance with one claimed work item, and a table of the application. */
async function arrange(store: StoreUnderTest) {
  const notes = await NotesTable.create(store);
  const begun = await store.begin('a', { workItems: [workItem(1)] });
  const { lockToken } = await store.claimWorkOne();
  return { notes, begun, lockToken };
}

/** Writes a note and acks the item. */
async function writeNote(store: StoreUnderTest, notes: NotesTable, ack: TransactionAck) {
  return transact(store, {
    write: async (tx) => {
      await notes.insert(tx, 'one');
      return ack;
    },
  });
}

async function expectCode(outcome: Promise<unknown>, code: Parameters<typeof isPerdureError>[1]) {
  const error: unknown = await outcome.then(
    () => 'resolved',
    (reason: unknown) => reason,
  );
  assert.ok(isPerdureError(error, code), `expected ${code}: ${String(error)}`);
}

function expectLost(result: CommitResult): void {
  assert.ok(!result.ok && result.error instanceof LockLostError);
}

export const transactions: Capability = {
  title: 'transactions of the application',
  cases: [
    {
      id: 'transact/commits-the-writes-and-the-ack',
      title: 'transact() commits the writes of the application and the ack of a work item',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        expectCommitted(await writeNote(store, notes, ackOf(lockToken)));
        assert.deepEqual(await notes.read(), ['one']);
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
        await store.expectIdle();
      },
    },
    {
      id: 'transact/commits-several-acks',
      title: 'transact() commits the writes of the application and the acks of several work items',
      async run(store) {
        const notes = await NotesTable.create(store);
        const tokens = await claimTasks(store, ['a', 'b']);
        const result = await writeNote(store, notes, acksOf(tokens));
        expectCommitted(result);
        assert.deepEqual(result.ok && result.items?.map((item) => item.ok && item.ended), [
          'completed',
          'completed',
        ]);
        assert.deepEqual(await notes.read(), ['one']);
        for (const id of ['a', 'b']) {
          const [record] = await store.provider.getInstances([id]);
          assert.equal(record?.status, 'completed');
        }
        await store.expectIdle();
      },
    },
    {
      id: 'transact/one-refused-ack-rolls-back-all',
      title: 'of several acks, one that is lost or canceled rolls back all of them',
      async run(store) {
        const notes = await NotesTable.create(store);
        const tokens = await claimTasks(store, ['a', 'b']);
        const lost = await writeNote(store, notes, acksOf([...tokens, randomToken()]));
        expectLost(lost);
        assert.deepEqual(
          lost.items?.map(({ ok }) => ok),
          [true, true, false],
        );
        await store.cancel('b', { reason: 'no more' });
        const canceled = await writeNote(store, notes, acksOf(tokens));
        assert.ok(!canceled.ok && isPerdureError(canceled.error, 'OPERATION_CANCELED'));
        assert.deepEqual(
          canceled.items?.map(({ ok }) => ok),
          [true, false],
        );
        assert.deepEqual(await notes.read(), []);
        const [first = ''] = tokens;
        expectCommitted(await writeNote(store, notes, acksOf([first])));
        assert.deepEqual(await notes.read(), ['one']);
      },
    },
    {
      id: 'transact/commits-a-turn',
      title: 'transact() commits the writes of the application and a turn in memory',
      async run(store) {
        const { notes, begun, lockToken } = await arrange(store);
        const { instanceKey, incarnation, turnId: lastTurn, historyLength } = begun;
        const turn = newTurn({ firstEventId: historyLength + 1, events: [event('two')] });
        const ack = { instanceKey, incarnation, executionId: 1, lastTurn, lockTokens: [lockToken] };
        expectCommitted(
          await writeNote(store, notes, { kind: 'turn', ack: { ...ack, instanceId, turn } }),
        );
        assert.deepEqual(await notes.read(), ['one']);
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'two']);
        await store.expectIdle();
      },
    },
    {
      id: 'transact/commits-a-turn-of-a-claim',
      title: 'transact() commits the writes of the application and the turn of a claimed instance',
      async run(store) {
        const notes = await NotesTable.create(store);
        await store.create('a');
        const { lockToken, messages } = await store.claimOne();
        const messageKeys = messages.map(({ messageKey }) => messageKey);
        const turn = newTurn({ events: [event('one')] });
        const ack = { instanceId, lockToken, messageKeys, turn };
        expectCommitted(await writeNote(store, notes, { kind: 'orchestration', ack }));
        assert.deepEqual(await notes.read(), ['one']);
        assert.deepEqual(await store.historyLabels('a'), ['one']);
        await store.expectIdle();
      },
    },
    {
      id: 'transact/commits-a-message-to-a-held-instance',
      title: 'transact() commits the writes of the application and a message to a held instance',
      async run(store) {
        const notes = await NotesTable.create(store);
        await store.create('a');
        const item = await store.claimOne();
        const { lockToken } = item;
        const ack = { instanceId, lockToken, message: raised('from the step') };
        expectCommitted(await writeNote(store, notes, { kind: 'message', ack }));
        assert.deepEqual(await notes.read(), ['one']);
        await store.commit(item, { events: [event('one')] });
        assert.deepEqual(labels(await store.claimOne()), ['from the step']);
      },
    },
    {
      id: 'transact/a-message-needs-a-held-instance',
      title: 'a message to an instance that another claim holds rolls back the writes',
      async run(store) {
        const notes = await NotesTable.create(store);
        await store.create('a');
        const { lockToken } = await store.claimOne();
        await store.clock.advance(lockMs);
        const next = await store.claimOne();
        const ack = { instanceId, lockToken, message: raised('from the step') };
        expectLost(await writeNote(store, notes, { kind: 'message', ack }));
        assert.deepEqual(await notes.read(), []);
        await store.commit(next, { events: [event('one')] });
        await store.expectIdle();
      },
    },
    {
      id: 'transact/a-lost-lease-rolls-back',
      title: 'a token that another claim has replaced rolls back the writes of the application',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        await store.clock.advance(lockMs);
        const next = await store.claimWorkOne();
        expectLost(await writeNote(store, notes, ackOf(lockToken)));
        assert.deepEqual(await notes.read(), []);
        expectCommitted(await store.ackWork(next.lockToken));
      },
    },
    {
      id: 'transact/an-expired-lease-rolls-back',
      title: 'a lease that expires while the application writes rolls back its writes',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        const result = await transact(store, {
          write: async (tx) => {
            await notes.insert(tx, 'one');
            await store.clock.advance(lockMs);
            return ackOf(lockToken);
          },
        });
        expectLost(result);
        assert.deepEqual(await notes.read(), []);
        await store.claimWorkOne();
      },
    },
    {
      id: 'transact/a-refused-turn-rolls-back',
      title: 'a turn that the store refuses rolls back the writes of the application',
      async run(store) {
        const { notes, begun, lockToken } = await arrange(store);
        const { instanceKey, incarnation } = begun;
        const ack = { instanceKey, incarnation, executionId: 1, lockTokens: [lockToken] };
        const turn = newTurn({ firstEventId: 2, events: [event('two')] });
        const stale = { ...ack, instanceId, lastTurn: randomToken(), turn };
        expectLost(await writeNote(store, notes, { kind: 'turn', ack: stale }));
        assert.deepEqual(await notes.read(), []);
        assert.deepEqual(await store.historyLabels('a'), ['begun']);
        expectCommitted(await store.ackWork(lockToken));
      },
    },
    {
      id: 'transact/a-canceled-item-rolls-back',
      title: 'with unlessCanceled, the ack of an item that was asked to stop rolls back',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        await store.cancel('a', { reason: 'no more' });
        const ack = { instanceId, lockToken, outcome: done };
        const request = { kind: 'workItem', ack, unlessCanceled: true } as const;
        const result = await writeNote(store, notes, request);
        assert.ok(!result.ok && isPerdureError(result.error, 'OPERATION_CANCELED'));
        assert.match(result.error.message, /no more/);
        assert.deepEqual(await notes.read(), []);
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
      },
    },
    {
      id: 'transact/an-error-rolls-back',
      title: 'an error of the application rolls back its writes, and the claim is kept',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        const failure = new Error('no');
        const outcome = await transact(store, {
          write: async (tx) => {
            await notes.insert(tx, 'one');
            throw failure;
          },
        }).catch((error: unknown) => error);
        assert.equal(outcome, failure);
        assert.deepEqual(await notes.read(), []);
        expectCommitted(await store.ackWork(lockToken));
      },
    },
    {
      id: 'transact/a-slow-write-rolls-back',
      title: 'writes that take longer than timeoutMs are rolled back with TRANSACTION_TIMEOUT',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        const stuck = transact(store, {
          timeoutMs: 30,
          write: async (tx) => {
            await notes.insert(tx, 'one');
            return new Promise<never>(() => undefined);
          },
        });
        await expectCode(stuck, 'TRANSACTION_TIMEOUT');
        assert.deepEqual(await notes.read(), []);
        expectCommitted(await store.ackWork(lockToken));
      },
    },
    {
      id: 'transact/an-aborted-write-rolls-back',
      title: 'an aborted signal rolls back the writes of the application',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        const controller = new AbortController();
        const reason = new Error('stop');
        const outcome = await transact(store, {
          signal: controller.signal,
          write: async (tx) => {
            await notes.insert(tx, 'one');
            controller.abort(reason);
            return new Promise<never>(() => undefined);
          },
        }).catch((error: unknown) => error);
        assert.equal(outcome, reason);
        assert.deepEqual(await notes.read(), []);
        expectCommitted(await store.ackWork(lockToken));
      },
    },
    {
      id: 'transact/tx-ends-with-its-write',
      title: 'a kept tx rejects statements after its writes have ended',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        let kept: StoreTransaction | undefined;
        const write = async (tx: StoreTransaction) => {
          kept = tx;
          await notes.insert(tx, 'one');
          return ackOf(lockToken);
        };
        expectCommitted(await transact(store, { write }));
        assert.ok(kept);
        await expectCode(notes.insert(kept, 'two'), 'TRANSACTION_CLOSED');
        assert.deepEqual(await notes.read(), ['one']);
      },
    },
    {
      id: 'transact/refuses-transaction-control',
      title: 'tx rejects COMMIT, ROLLBACK and BEGIN, and allows savepoints',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        const write = async (tx: StoreTransaction) => {
          await notes.insert(tx, 'one');
          for (const statement of ['COMMIT', ' /* x */ end', '-- x\n;rollback', 'BEGIN']) {
            await expectCode(tx.query(statement), 'TRANSACTION_STATEMENT');
          }
          await tx.query('SAVEPOINT inner_part');
          await notes.insert(tx, 'two');
          await tx.query('ROLLBACK TO SAVEPOINT inner_part');
          return ackOf(lockToken);
        };
        expectCommitted(await transact(store, { write }));
        assert.deepEqual(await notes.read(), ['one']);
      },
    },
    {
      id: 'transact/other-writes-follow',
      title: 'reads do not see the writes before the commit, and other writes commit after it',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        const open = Promise.withResolvers<void>();
        const running = transact(store, {
          write: async (tx) => {
            await notes.insert(tx, 'one');
            open.resolve();
            await delay(20);
            return ackOf(lockToken);
          },
        });
        await open.promise;
        const other = createTask(store, 'b');
        assert.equal((await store.record('a')).status, 'running');
        expectCommitted(await running);
        await other;
        assert.equal((await store.record('b')).status, 'pending');
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'transact/wakes-waiting-fetches',
      title: 'a fetch that waits for instances returns the one that the transaction made due',
      async run(store) {
        const { notes, lockToken } = await arrange(store);
        const waiting = store.claim({ waitMs: 60_000 });
        expectCommitted(await writeNote(store, notes, ackOf(lockToken)));
        const [item] = await withTimeLimit(waiting, 'after the commit');
        assert.equal(item?.instanceId, 'a');
      },
    },
  ],
};
