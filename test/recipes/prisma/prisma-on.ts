import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { PrismaClient } from './generated/client.ts';

interface Statement {
  readonly text: string;
}

/** A pool whose only connection has an open transaction. What Prisma begins in it becomes a savepoint. */
class TransactionPool extends pg.Pool {
  constructor(connection: Pick<pg.ClientBase, 'query'>) {
    super();
    let depth = 0;
    const toSavepoint: Readonly<Record<string, () => string>> = {
      BEGIN: () => `SAVEPOINT prisma_${(depth += 1)}`,
      COMMIT: () => `RELEASE SAVEPOINT prisma_${depth--}`,
      ROLLBACK: () => `ROLLBACK TO SAVEPOINT prisma_${depth--}`,
    };
    const query = (statement: Statement) =>
      connection.query({ ...statement, text: toSavepoint[statement.text]?.() ?? statement.text });
    const client = { query, on: () => client, removeListener: () => client, release: () => {} };
    Object.assign(this, { query, connect: () => Promise.resolve(client) });
  }
}

/** Returns a client of Prisma that writes in a transaction that is open already. */
export function prismaOn(tx: Pick<pg.ClientBase, 'query'>): PrismaClient {
  return new PrismaClient({ adapter: new PrismaPg(new TransactionPool(tx)) });
}
