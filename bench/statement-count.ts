import Database from 'better-sqlite3';

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** Counts the statements of this process at the driver; call it before a store is opened. */
export function countStatements(): () => number {
  const db = new Database(':memory:');
  const prototype = Object.getPrototypeOf(db.prepare('SELECT 1')) as Record<string, Method>;
  db.close();
  let count = 0;
  for (const name of ['run', 'get', 'all', 'iterate']) {
    const method = prototype[name];
    if (method === undefined) throw new Error(`Statements have no method ${name}.`);
    prototype[name] = function counted(...args) {
      count += 1;
      return method.apply(this, args);
    };
  }
  return () => count;
}
