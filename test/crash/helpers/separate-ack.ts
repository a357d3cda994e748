import Database from 'better-sqlite3';
import pg from 'pg';
import { setTimeout as delay } from 'node:timers/promises';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { StoreTransaction } from '../../../src/model/store-transaction.ts';
import type { TransactionAck } from '../../../src/providers/contract/transactional.ts';
import type { CommitResult } from '../../../src/providers/contract/turn.ts';
import { isPostgresUrl } from '../../../src/providers/postgres/driver/postgres-url.ts';
import { overrideProvider } from '../override-provider.ts';

/** Begins, commits and rolls back the writes of the application alone. */
interface OwnTransaction extends StoreTransaction {
  end(command: 'COMMIT' | 'ROLLBACK'): Promise<void>;
}

/** A broken provider: the writes of the application commit in their own transaction, before the ack. */
export function withSeparateAck(provider: Provider, store: string): Provider {
  const begin = isPostgresUrl(store) ? beginPostgres(store) : beginSqlite(store);
  return overrideProvider(provider, {
    transact: async ({ write }) => {
      const tx = await begin();
      let ack: TransactionAck;
      try {
        ack = await write(tx);
      } catch (error) {
        await tx.end('ROLLBACK');
        throw error;
      }
      await tx.end('COMMIT');
      await delay(5);
      return acked(provider, ack);
    },
  });
}

async function acked(provider: Provider, one: TransactionAck): Promise<CommitResult> {
  const [result] =
    one.kind === 'workItem'
      ? await provider.ackWorkItems([one.ack])
      : one.kind === 'turn'
        ? await provider.ackTurns([one.ack])
        : one.kind === 'orchestration'
          ? await provider.ackOrchestrationItems([one.ack])
          : one.kind === 'workItems'
            ? await provider.ackWorkItems(one.acks.map(({ ack }) => ack))
            : await sendMessage(provider, one.ack);
  if (result === undefined) throw new Error('The ack has no result.');
  return result;
}

/** Sends the message in a transaction of its own. */
async function sendMessage(
  provider: Provider,
  ack: Extract<TransactionAck, { kind: 'message' }>['ack'],
): Promise<readonly CommitResult[]> {
  const result = await provider.transact?.({ write: async () => ({ kind: 'message', ack }) });
  return result === undefined ? [] : [result];
}

function beginPostgres(url: string): () => Promise<OwnTransaction> {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return async () => {
    const client = await pool.connect();
    await client.query('BEGIN');
    return {
      query: (text, values) => client.query(text, values as unknown[]),
      async end(command) {
        await client.query(command);
        client.release();
      },
    };
  };
}

function beginSqlite(path: string): () => Promise<OwnTransaction> {
  let last: Promise<void> = Promise.resolve();
  return async () => {
    const before = last;
    const ended = Promise.withResolvers<void>();
    last = ended.promise;
    await before;
    const db = new Database(path, { timeout: 10_000 });
    db.exec('BEGIN IMMEDIATE');
    return {
      async query(text: string, values: readonly unknown[] = []) {
        const bound = Object.fromEntries(values.map((value, index) => [String(index + 1), value]));
        const { changes } = db.prepare<[object]>(text).run(bound);
        return { rows: [], rowCount: changes };
      },
      async end(command) {
        db.exec(command);
        db.close();
        ended.resolve();
      },
    };
  };
}
