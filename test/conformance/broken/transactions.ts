import { PerdureError } from '../../../src/model/failures/errors.ts';
import type { StoreTransaction } from '../../../src/model/store-transaction.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { TransactRequest } from '../../../src/providers/contract/transactional.ts';
import type { CommitResult } from '../../../src/providers/contract/turn.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

type Transact = (request: TransactRequest) => Promise<CommitResult>;

/** Replaces `transact`, given the intact one. */
function edit(change: (intact: Intact, transact: Transact) => Transact) {
  return (intact: Intact): Partial<Provider> => {
    const { transact } = intact.provider;
    if (transact === undefined) throw new Error('The intact provider has no transactions.');
    return { transact: change(intact, transact) };
  };
}

/** Runs statements in transactions of their own on a second connection. */
function autocommitting({ db }: Intact): StoreTransaction {
  return {
    query: async (text: string, values: readonly unknown[] = []) => {
      const statement = db.prepare<unknown[], never>(text);
      const named = Object.fromEntries(values.map((value, index) => [index + 1, value]));
      const bound = values.length > 0 ? [named] : [];
      if (statement.reader) {
        const rows = statement.all(...bound);
        return { rows, rowCount: rows.length };
      }
      return { rows: [], rowCount: statement.run(...bound).changes };
    },
  };
}

/** Writes with statements that commit at once, then acks in another transaction. */
const ackSeparately = edit((intact, transact) => async ({ write }) => {
  const one = await write(autocommitting(intact));
  const { provider } = intact;
  const results =
    one.kind === 'workItem'
      ? await provider.ackWorkItems([one.ack])
      : one.kind === 'turn'
        ? await provider.ackTurns([one.ack])
        : one.kind === 'orchestration'
          ? await provider.ackOrchestrationItems([one.ack])
          : one.kind === 'workItems'
            ? await provider.ackWorkItems(one.acks.map(({ ack }) => ack))
            : [await transact({ write: async () => one })];
  const [result] = results;
  if (result === undefined) throw new Error('No result.');
  return result;
});

/** Transactions of the application, each with one guard removed. */
export const brokenTransactions: readonly BrokenProvider[] = [
  ...[
    'transact/a-lost-lease-rolls-back',
    'transact/an-expired-lease-rolls-back',
    'transact/a-refused-turn-rolls-back',
    'transact/an-error-rolls-back',
    'transact/a-message-needs-a-held-instance',
    'transact/one-refused-ack-rolls-back-all',
  ].map((rejectedBy) => ({
    fault: `the ack is not in the transaction of the writes (${rejectedBy})`,
    rejectedBy,
    override: ackSeparately,
  })),
  {
    fault: 'the ack is not written',
    rejectedBy: 'transact/commits-the-writes-and-the-ack',
    override: edit((intact) => async ({ write }) => {
      await write(autocommitting(intact));
      return { ok: true, claimed: [] };
    }),
  },
  {
    fault: 'of several acks, only the first is written',
    rejectedBy: 'transact/commits-several-acks',
    override: edit(
      (_, transact) => (request) =>
        transact({
          ...request,
          write: async (tx) => {
            const one = await request.write(tx);
            return one.kind === 'workItems' ? { ...one, acks: one.acks.slice(0, 1) } : one;
          },
        }),
    ),
  },
  {
    fault: 'a turn in memory is acked without the writes',
    rejectedBy: 'transact/commits-a-turn',
    override: edit((intact, transact) => async (request) => {
      const silent: StoreTransaction = { query: async () => ({ rows: [], rowCount: 1 }) };
      const one = await request.write(silent);
      return one.kind === 'turn'
        ? ((await intact.provider.ackTurns([one.ack]))[0] ?? { ok: true, claimed: [] })
        : transact(request);
    }),
  },
  {
    fault: 'the turn of a claim is acked without the writes',
    rejectedBy: 'transact/commits-a-turn-of-a-claim',
    override: edit((intact, transact) => async (request) => {
      const silent: StoreTransaction = { query: async () => ({ rows: [], rowCount: 1 }) };
      const one = await request.write(silent);
      return one.kind === 'orchestration'
        ? ((await intact.provider.ackOrchestrationItems([one.ack]))[0] ?? { ok: true, claimed: [] })
        : transact(request);
    }),
  },
  {
    fault: 'a message to a held instance is dropped',
    rejectedBy: 'transact/commits-a-message-to-a-held-instance',
    override: edit((intact, transact) => async (request) => {
      const result = await transact(request);
      intact.db.exec(`DELETE FROM orchestrator_queue WHERE kind = 'eventRaised'`);
      return result;
    }),
  },
  {
    fault: 'a cancel request is ignored',
    rejectedBy: 'transact/a-canceled-item-rolls-back',
    override: edit(
      (_, transact) => (request) =>
        transact({
          ...request,
          write: async (tx) => {
            const one = await request.write(tx);
            return one.kind === 'workItem' ? { kind: one.kind, ack: one.ack } : one;
          },
        }),
    ),
  },
  {
    fault: 'the writes of a slow transaction are kept',
    rejectedBy: 'transact/a-slow-write-rolls-back',
    override: edit((intact, transact) => async (request) => {
      if (request.timeoutMs === undefined) return transact(request);
      const late = new PerdureError('TRANSACTION_TIMEOUT', 'too late');
      void request.write(autocommitting(intact));
      throw late;
    }),
  },
  {
    fault: 'the writes of an aborted transaction are kept',
    rejectedBy: 'transact/an-aborted-write-rolls-back',
    override: edit((intact, transact) => async (request) => {
      const { signal, write } = request;
      if (signal === undefined) return transact(request);
      void write(autocommitting(intact));
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      throw signal.reason;
    }),
  },
  {
    fault: 'tx can be used after its writes',
    rejectedBy: 'transact/tx-ends-with-its-write',
    override: edit(
      (intact, transact) => (request) =>
        transact({
          ...request,
          write: (tx) => {
            const later = autocommitting(intact);
            let isOver = false;
            const lasting: StoreTransaction = {
              query: (text, values) => (isOver ? later : tx).query(text, values),
            };
            return request.write(lasting).finally(() => (isOver = true));
          },
        }),
    ),
  },
  {
    fault: 'transaction control is ignored instead of refused',
    rejectedBy: 'transact/refuses-transaction-control',
    override: edit(
      (_, transact) => (request) =>
        transact({
          ...request,
          write: (tx) =>
            request.write({
              query: async (text, values) =>
                text === 'COMMIT' ? { rows: [], rowCount: 0 } : tx.query(text, values),
            }),
        }),
    ),
  },
  {
    fault: 'writes during a transaction are lost',
    rejectedBy: 'transact/other-writes-follow',
    override: (intact) => {
      let isOpen = false;
      const { transact } = edit((_, inner) => async (request) => {
        isOpen = true;
        return inner(request).finally(() => (isOpen = false));
      })(intact);
      return {
        ...(transact !== undefined && { transact }),
        createTasks: async (tasks) =>
          isOpen
            ? tasks.map(() => ({ kind: 'created', instanceKey: 1 }))
            : intact.provider.createTasks(tasks),
      };
    },
  },
  {
    fault: 'waiting fetches are not notified',
    rejectedBy: 'transact/wakes-waiting-fetches',
    override: (intact) => ({
      fetchOrchestrationItems: (params) =>
        params.waitMs > 0
          ? new Promise<never>(() => undefined)
          : intact.provider.fetchOrchestrationItems(params),
    }),
  },
];
