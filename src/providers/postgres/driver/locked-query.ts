import pg from 'pg';
import type { BoundStatement, DeferredStatement, Statement } from './transaction.ts';

/** The parts of the driver's connection that its types do not declare. */
interface Wire {
  readonly stream: { cork(): void; uncork(): void };
  /** The texts of the statements that this connection has prepared, by name. */
  readonly parsedStatements?: Readonly<Record<string, string>>;
  bind(message: {
    readonly statement: string;
    readonly values: readonly unknown[];
    readonly valueMapper?: (value: unknown) => unknown;
  }): void;
  describe(message: { readonly type: 'P'; readonly name: string }): void;
  execute(message: { readonly portal: string }): void;
  sync(): void;
}

interface RowDescription {
  readonly fields: readonly pg.FieldDef[];
}

interface DriverQuery {
  submit(connection: Wire): Error | null;
  handleRowDescription(message: RowDescription): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Wire): void;
  handleReadyForQuery(connection: Wire): void;
  handleError(error: Error, connection: Wire): void;
}

type Settle = (error: Error | null | undefined, result: pg.QueryResult) => void;

const DriverQuery = pg.Query as unknown as new (
  config: pg.QueryConfig,
  values: undefined,
  settle: Settle,
) => DriverQuery;

/** The columns of results, by statement. They depend on its text alone, so each statement is described once. */
const descriptions = new WeakMap<Statement, RowDescription>();

/**
 * Two prepared statements in one implicit transaction. The first one locks rows. The second one returns the result, with its
 * own snapshot, taken after the locks. Without BEGIN and COMMIT the server sends one response instead of four.
 *
 * The first statement is sent alone, so that the server runs it while this process encodes the second.
 */
export class LockedQuery extends DriverQuery {
  readonly #lock: BoundStatement;
  readonly #deferred: DeferredStatement;
  #isLocked = false;
  /** The error of `encode`. The transaction has only locked rows. */
  #unencoded: Error | undefined;

  constructor(
    lock: BoundStatement,
    deferred: DeferredStatement,
    types: pg.CustomTypesConfig,
    settle: Settle,
  ) {
    const { name, text } = deferred.statement;
    super({ name, text, types }, undefined, settle);
    this.#lock = lock;
    this.#deferred = deferred;
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
    connection.bind({ statement: name, values });
    connection.execute({ portal: '' });
    stream.uncork();
    stream.cork();
    try {
      this.#submitDeferred(connection);
    } catch (error) {
      this.#unencoded = error as Error;
    }
    connection.sync();
    stream.uncork();
    return null;
  }

  #submitDeferred(connection: Wire): void {
    const { statement, encode } = this.#deferred;
    connection.bind({ statement: statement.name, values: encode(), valueMapper: toText });
    const known = descriptions.get(statement);
    if (known === undefined) connection.describe({ type: 'P', name: '' });
    else super.handleRowDescription(known);
    connection.execute({ portal: '' });
  }

  override handleRowDescription(message: RowDescription): void {
    descriptions.set(this.#deferred.statement, message);
    super.handleRowDescription(message);
  }

  override handleDataRow(message: unknown): void {
    if (this.#isLocked) super.handleDataRow(message);
  }

  override handleCommandComplete(message: unknown, connection: Wire): void {
    if (this.#isLocked) super.handleCommandComplete(message, connection);
    else this.#isLocked = true;
  }

  override handleReadyForQuery(connection: Wire): void {
    if (this.#unencoded === undefined) super.handleReadyForQuery(connection);
    else this.handleError(this.#unencoded, connection);
  }
}

/** The text format of numbers and booleans. Other values are texts, buffers or `null`. */
function toText(value: unknown): unknown {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
}
