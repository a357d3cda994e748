import type { NewTask } from '../../contract/tasks.ts';
import { numbers, texts } from '../driver/arrays.ts';
import { nowSql } from '../driver/scope.ts';
import { taskOperation } from './work-items.ts';

/** A task run to be inserted. */
export interface TaskRow {
  readonly task: NewTask;
  readonly definitionKey: number;
}

/** What became of one row, in the order of the rows. */
export interface InsertedTask {
  readonly instanceKey: number;
  readonly isCreated: boolean;
  /** It has taken its dedupe key. */
  readonly hasKey: boolean;
  /** When something is to be done about it; the past means now. */
  readonly dueAt: number;
}

/**
 * The statement that inserts runs with their items and keys. `strict` fails as a whole when an id or a key is taken, and
 * needs no look at either; otherwise such a run is left out, though it may have taken its key. `$1` is the clock's.
 */
export function insertTasksText(schema: string, { strict }: { readonly strict: boolean }): string {
  const unless = (columns: string) => (strict ? '' : `ON CONFLICT (${columns}) DO NOTHING`);
  const isNew = `(SELECT 1 FROM ${schema}.instances AS known WHERE known.instance_id = new.instance_id LIMIT 1) IS NULL`;
  return `WITH new AS MATERIALIZED (
      SELECT nextval('${schema}.instances_instance_key_seq') AS instance_key, one.*,
        coalesce(start_at, clock.now + delay_ms) AS run_at,
        coalesce(end_at, greatest(start_at, clock.now + delay_ms, clock.now) + expires_in_ms) AS expires_at
      FROM unnest($2::text[], $3::text[], $4::int[], $5::text[], $6::smallint[], $7::text[], $8::text[], $9::bigint[],
          $10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[], $15::bigint[]) WITH ORDINALITY
        AS one (instance_id, incarnation, definition_key, input_hash, priority, input, options, start_at, end_at,
          dedupe_key, on_fail, on_fail_options, delay_ms, expires_in_ms, place)
      CROSS JOIN ${nowSql} AS clock (now)
    ), keyed AS (
      INSERT INTO ${schema}.dedupe_keys (definition_key, dedupe_key, instance_key)
      SELECT definition_key, dedupe_key, instance_key FROM new
      WHERE dedupe_key IS NOT NULL ${strict ? '' : `AND ${isNew}`}
      ORDER BY definition_key, dedupe_key ${unless('definition_key, dedupe_key')}
      RETURNING instance_key
    ), created AS (
      INSERT INTO ${schema}.instances (instance_key, instance_id, incarnation, definition_key, status, execution_id,
        history_length, input_hash, created_at, priority, input, options, run_at, expires_at, dedupe_key, failures,
        on_fail, on_fail_options)
      OVERRIDING SYSTEM VALUE
      SELECT instance_key, instance_id, incarnation, definition_key, 'pending', 1, 0, input_hash, ${nowSql}, priority,
        input, options, run_at, expires_at, dedupe_key, 0, on_fail, on_fail_options
      FROM new ${strict ? '' : 'WHERE dedupe_key IS NULL OR instance_key IN (SELECT instance_key FROM keyed)'}
      ORDER BY place ${unless('instance_id')}
      RETURNING instance_key
    ), queued AS (
      INSERT INTO ${schema}.worker_queue (instance_key, execution_id, operation, definition_key, priority, next_at,
        expires_at, claims, created_at)
      SELECT instance_key, 1, ${taskOperation}, definition_key, priority, greatest(run_at, ${nowSql}), expires_at, 0,
        ${nowSql}
      FROM new ${strict ? '' : 'WHERE instance_key IN (SELECT instance_key FROM created)'}
      ORDER BY place
    )
    SELECT instance_key AS "instanceKey", least(coalesce(run_at, 0), expires_at) AS "dueAt", ${
      strict
        ? `TRUE AS "isCreated", dedupe_key IS NOT NULL AS "hasKey"`
        : `instance_key IN (SELECT instance_key FROM created) AS "isCreated",
           instance_key IN (SELECT instance_key FROM keyed) AS "hasKey"`
    } FROM new ORDER BY place`;
}

/** The values of the statement, after that of the clock. */
export function insertTasksValues(rows: readonly TaskRow[]): readonly unknown[] {
  const tasks = rows.map(({ task }) => task);
  return [
    texts(tasks.map(({ instanceId }) => instanceId)),
    texts(tasks.map(({ incarnation }) => incarnation)),
    numbers(rows.map(({ definitionKey }) => definitionKey)),
    texts(tasks.map(({ inputHash }) => inputHash)),
    numbers(tasks.map(({ priority }) => priority)),
    texts(tasks.map(({ payload }) => payload)),
    texts(tasks.map(({ options }) => options)),
    numbers(tasks.map(({ runAt }) => wholeOrNull(runAt))),
    numbers(tasks.map(({ expiresAt }) => wholeOrNull(expiresAt))),
    texts(tasks.map(({ dedupeKey }) => dedupeKey ?? null)),
    texts(tasks.map(({ onFail }) => (onFail === undefined ? null : 'ready'))),
    texts(tasks.map(({ onFail }) => onFail?.options ?? null)),
    numbers(tasks.map(({ delayMs }) => wholeOrNull(delayMs))),
    numbers(tasks.map(({ expiresInMs }) => wholeOrNull(expiresInMs))),
  ];
}

function wholeOrNull(time: number | undefined): number | null {
  return time === undefined ? null : Math.ceil(time);
}
