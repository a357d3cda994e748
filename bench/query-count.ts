import pg from 'pg';

type Query = (this: object, ...args: unknown[]) => unknown;

/** The number of statements and round trips of this process to PostgreSQL. */
export interface QueryCount {
  readonly statements: number;
  /** Statements sent while others of their connection are in flight share their round trip. */
  readonly roundTrips: number;
}

/** Counts at the driver, for all senders; call it before a store is opened. */
export function countQueries(): () => QueryCount {
  const prototype = pg.Client.prototype as unknown as { query: Query };
  const { query } = prototype;
  const underWay = new WeakMap<object, number>();
  let statements = 0;
  let roundTrips = 0;
  const add = (client: object, change: number): number => {
    const now = (underWay.get(client) ?? 0) + change;
    underWay.set(client, now);
    return now;
  };
  prototype.query = function counted(...args) {
    statements += 1;
    const result = query.apply(this, args);
    if (add(this, 1) === 1) roundTrips += 1;
    const answered = (): void => void add(this, -1);
    if (result instanceof Promise) result.then(answered, answered);
    else answered();
    return result;
  };
  return () => ({ statements, roundTrips });
}
