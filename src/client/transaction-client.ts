import type { EventToken, OrchestrationRef, TaskRef } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { TransactionConnection } from '../providers/contract/transactional.ts';
import type {
  EventArguments,
  RunFlowOptions,
  StartArguments,
  StartOptions,
  StartableFlow,
} from './starting/start-request.ts';
import type { Handle, TaskHandle } from './handle.ts';
import type { CancelOptions } from './managing/stop-request.ts';
import type { RunTaskOptions } from './starting/task-request.ts';
import type { RunTaskArguments, TaskHandles, TaskRequest } from './starting/task-request.ts';

/**
 * Writes as a part of the application's own transaction: what it starts, runs, raises and cancels happens when that
 * commits, and has never happened when it is rolled back.
 */
export interface TransactionClient {
  /** Starts an instance; wait for its result only after the commit. */
  start<Input, Output>(
    definition: OrchestrationRef<Input, Output>,
    ...args: StartArguments<Input>
  ): Promise<Handle<Output>>;
  start(name: string, input?: unknown, options?: StartOptions): Promise<Handle>;

  /** Creates a task run, which may start once the transaction has committed. */
  runTask<Input, Output>(
    task: TaskRef<Input, Output>,
    ...args: RunTaskArguments<Input>
  ): Promise<TaskHandle<Output>>;
  runTask(task: string, input?: unknown, options?: RunTaskOptions): Promise<TaskHandle>;

  /** Creates many task runs at the cost of few statements. */
  runTasks<const Tasks extends readonly (TaskRef | string)[]>(requests: {
    readonly [Index in keyof Tasks]: TaskRequest<Tasks[Index]>;
  }): Promise<TaskHandles<Tasks>>;

  /** Starts a run of a flow. */
  runFlow<Input, Output>(
    flow: StartableFlow<Input, Output>,
    ...args: StartArguments<Input, RunFlowOptions>
  ): Promise<Handle<Output>>;

  /** Sends an external event to an instance. */
  raiseEvent<Value>(
    id: string,
    event: EventToken<Value, unknown>,
    ...payload: EventArguments<Value>
  ): Promise<void>;
  raiseEvent(id: string, name: string, payload?: unknown): Promise<void>;

  /** Asks an instance to stop. */
  cancel(id: string, options?: Omit<CancelOptions, 'wait'>): Promise<StopResult>;
}

/** The same provider, but for the writes that are to be a part of a transaction. */
export function providerWithin(provider: Provider, transaction: ApplicationTransaction): Provider {
  const connection = connectionOf(transaction);
  if (connection === undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      'withTransaction takes a transaction of drizzle or kysely, a client of pg on which a transaction was begun, or something with its query().',
    );
  }
  const writes = provider.within?.(connection);
  if (writes === undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      `The store (${provider.name}) cannot take part in a transaction of yours. Open a PostgreSQL, or call the client itself.`,
    );
  }
  return Object.assign(Object.create(provider) as Provider, writes, {
    hints: (listener: Parameters<Provider['hints']>[0]) => provider.hints(listener),
  });
}

/** A transaction of kysely. */
interface KyselyTransaction {
  readonly isTransaction: true;
  withoutPlugins(): {
    executeQuery(query: never): Promise<{
      readonly rows: unknown[];
      readonly numAffectedRows?: bigint | undefined;
    }>;
  };
}

/** A transaction of drizzle, on the `pg` driver. */
interface DrizzleTransaction {
  readonly _: { readonly session: object };
}

/** A transaction of the application: of `pg`, drizzle or kysely, or anything that queries like a client of `pg`. */
export type ApplicationTransaction = TransactionConnection | KyselyTransaction | DrizzleTransaction;

/** What Perdure writes on; `undefined` for something that is no transaction. */
export function connectionOf(transaction: unknown): TransactionConnection | undefined {
  if (typeof transaction !== 'object' || transaction === null) return undefined;
  if (isConnection(transaction)) return transaction;
  if (isKysely(transaction)) return overKysely(transaction);
  // The driver's own client, which drizzle has begun the transaction on.
  const { client } = ((transaction as Partial<DrizzleTransaction>)._?.session ?? {}) as {
    readonly client?: object | null;
  };
  return isConnection(client) ? client : undefined;
}

function isConnection(value: object | null | undefined): value is TransactionConnection {
  const { query } = (value ?? {}) as { readonly query?: unknown };
  return typeof query === 'function';
}

function isKysely(value: object): value is KyselyTransaction {
  const { isTransaction, withoutPlugins } = value as Partial<KyselyTransaction>;
  return isTransaction === true && typeof withoutPlugins === 'function';
}

function overKysely(transaction: KyselyTransaction): TransactionConnection {
  // Plugins may rename columns, which are none of theirs.
  const plain = transaction.withoutPlugins();
  return {
    async query({ text, values }) {
      const { rows, numAffectedRows } = await plain.executeQuery(compiled(text, values) as never);
      return { rows: rows as object[], rowCount: Number(numAffectedRows ?? rows.length) };
    },
  };
}

/** What `CompiledQuery.raw` of kysely makes. */
function compiled(sql: string, parameters: readonly unknown[]): object {
  return {
    sql,
    parameters,
    query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
    queryId: { queryId: randomToken() },
  };
}
