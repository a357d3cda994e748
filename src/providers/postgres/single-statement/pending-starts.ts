import type { CreateResult, NewInstance } from '../../contract/instances.ts';
import { Effects } from '../../shared/effects.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { clock, prepare, rowsOf } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import type { Definitions } from '../tables/definitions.ts';
import { addLive } from '../tables/instance-rows.ts';

interface PendingStart {
  readonly instance: NewInstance;
  readonly definitionKey: number;
}

interface Created {
  readonly now: number;
  readonly instanceKeys: readonly string[];
}

/**
 * Creates instances with their start messages in one statement, for a worker of another process. Their names must be in the
 * cache. If an id is taken, the statement fails as a whole, and the caller uses the general path.
 */
export class SingleStatementPendingStarts {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #start: ReturnType<typeof startStatement>;

  constructor({ connections, definitions, schema }: PathParts) {
    this.#connections = connections;
    this.#definitions = definitions;
    this.#start = startStatement(schema);
  }

  /** Creates the instances, or returns `undefined` if the caller has to use the general path. */
  async create(
    instances: readonly NewInstance[],
    now: number | null,
  ): Promise<BatchResult<CreateResult> | undefined> {
    const starts = this.#toStarts(instances);
    if (starts === undefined) return undefined;
    const sent = this.#connections.statement<Created>(
      'createInstances',
      ...this.#start({ now, starts }),
    );
    const [created] = (await undefinedIfRefused(sent)) ?? [];
    if (created === undefined) return undefined;
    const effects = new Effects();
    for (const { definitionKey } of starts)
      effects.due('orchestrations', created.now, definitionKey);
    const results = created.instanceKeys.map((key): CreateResult => ({
      kind: 'created',
      instanceKey: Number(key),
      claimed: [],
    }));
    return { results, effects };
  }

  /** Returns the starts, or `undefined` if one of them is not eligible. */
  #toStarts(instances: readonly NewInstance[]): readonly PendingStart[] | undefined {
    const ids = new Set<string>();
    const starts: PendingStart[] = [];
    for (const instance of instances) {
      const { instanceId, name, version } = instance;
      if (!isPlain(instance) || ids.has(instanceId)) return undefined;
      ids.add(instanceId);
      const definitionKey = this.#definitions.find({ kind: 'orchestration', name, version });
      if (definitionKey === undefined) return undefined;
      starts.push({ instance, definitionKey });
    }
    return starts;
  }
}

/** Whether a start is only an instance and its message, which is visible immediately. */
function isPlain(instance: NewInstance): boolean {
  const { firstTurn, tags, lane, headers, timeoutMs, delayMs, runAt, isRepeat } = instance;
  const { dedupeKey, debounce, event, onConflict } = instance;
  return (
    firstTurn === undefined &&
    tags === undefined &&
    isRepeat === undefined &&
    lane === undefined &&
    headers === undefined &&
    timeoutMs === undefined &&
    delayMs === undefined &&
    runAt === undefined &&
    dedupeKey === undefined &&
    debounce === undefined &&
    event === undefined &&
    onConflict === undefined
  );
}

const startRows = rowsOf<PendingStart>()({
  instance_id: ['text', ({ instance }) => instance.instanceId],
  incarnation: ['text', ({ instance }) => instance.incarnation],
  definition_key: ['int', ({ definitionKey }) => definitionKey],
  input_hash: ['text', ({ instance }) => instance.inputHash],
  kind: ['text', ({ instance }) => instance.start.kind],
  start_execution_id: ['int', ({ instance }) => instance.start.executionId],
  operation: ['int', ({ instance }) => instance.start.operation],
  data: ['text', ({ instance }) => instance.start.data],
  payload: ['text', ({ instance }) => instance.start.payload],
});

/** A new instance has no other writer, so the statement has no fence but the unique id. */
function startStatement(schema: string) {
  const key = '(SELECT instance_keys FROM drawn)[place]';
  const now = '(SELECT now FROM drawn)';
  return prepare(
    'perdure_start_pending',
    { now: clock, starts: startRows },
    ({ starts }) => `WITH drawn AS MATERIALIZED (
      SELECT ${nowSql} AS now, ARRAY(SELECT nextval('${schema}.instances_instance_key_seq')
        FROM generate_series(1, cardinality(${starts.column('instance_id')}))) AS instance_keys
    ), created AS (
      INSERT INTO ${schema}.instances (instance_key, instance_id, incarnation, definition_key, input_hash, status,
        execution_id, history_length, created_at)
      OVERRIDING SYSTEM VALUE
      SELECT ${key}, instance_id, incarnation, definition_key, input_hash, 'pending', 1, 0, ${now}
      FROM ${starts.withPlace('start')}
    ), sent AS (
      INSERT INTO ${schema}.orchestrator_queue (instance_key, visible_at, kind, execution_id, operation, data, payload)
      SELECT ${key}, ${now}, kind, start_execution_id, operation, data, payload FROM ${starts.withPlace('start')}
    ), claimable AS (
      INSERT INTO ${schema}.instance_locks (instance_key, definition_key, next_at, claims)
      SELECT ${key}, definition_key, ${now}, 0 FROM ${starts.withPlace('start')}
    ), ${addLive(schema, 'SELECT unnest(instance_keys) FROM drawn')}
    SELECT now, instance_keys AS "instanceKeys" FROM drawn`,
  );
}
