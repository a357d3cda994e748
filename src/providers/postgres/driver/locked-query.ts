import pg from 'pg';
import type { Statement } from './transaction.ts';

/** A statement with its encoded values. */
export type BoundStatement = readonly [statement: Statement, values: readonly unknown[]];

/** The parts of the driver's connection that its types do not declare. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void };
  /** The texts of the statements that this connection has prepared, by name. */
  readonly parsedStatements?: Readonly<Record<string, string>>;
  bind(message: { readonly statement: string; readonly values: readonly unknown[] }): void;
  execute(message: { readonly portal: string }): void;
}

interface DriverQuery {
  submit(connection: Wire): Error | null;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Wire): void;
}

type Settle = (error: Error | null | undefined, result: pg.QueryResult) => void;

const DriverQuery = pg.Query as unknown as new (
  config: pg.QueryConfig,
  values: undefined,
  settle: Settle,
) => DriverQuery;

/**
 * Two prepared statements in one implicit transaction. The first one locks rows. The second one returns the result, with its
 * own snapshot, taken after the locks. Without BEGIN and COMMIT the server reads and sends one message instead of four.
 */
export class LockedQuery extends DriverQuery {
  readonly #lock: BoundStatement;
  #isLocked = false;

  constructor(lock: BoundStatement, query: pg.QueryConfig, settle: Settle) {
    super(query, undefined, settle);
    this.#lock = lock;
  }

  /** Whether a connection has prepared the statements. A `LockedQuery` cannot prepare them. */
  static isPrepared(client: pg.PoolClient, statements: readonly Statement[]): boolean {
    const { parsedStatements } = client.connection as unknown as Wire;
    return statements.every(({ name, text }) => parsedStatements?.[name] === text);
  }

  override submit(connection: Wire): Error | null {
    const [{ name }, values] = this.#lock;
    const { stream } = connection;
    stream.cork();
    try {
      connection.bind({ statement: name, values });
      connection.execute({ portal: '' });
      return super.submit(connection);
    } finally {
      stream.uncork();
    }
  }

  override handleDataRow(message: unknown): void {
    if (this.#isLocked) super.handleDataRow(message);
  }

  override handleCommandComplete(message: unknown, connection: Wire): void {
    if (this.#isLocked) super.handleCommandComplete(message, connection);
    else this.#isLocked = true;
  }
}
