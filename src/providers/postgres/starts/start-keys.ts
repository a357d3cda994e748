import { debounceExpiry, maxSwept, windowEnd, type StartKeyKind } from '../../rules/start-keys.ts';
import { one, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** A key of a start that finds another run. */
export interface StartKey {
  readonly definitionKey: number;
  readonly kind: StartKeyKind;
  readonly startKey: string;
}

/** The run of a debounce key. */
export interface DebouncedRun {
  readonly startKey: string;
  readonly definitionKey: number;
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly createdAt: number;
  readonly requestKey: string;
}

interface KeyRow extends StartKey {
  readonly instanceKey: number;
  readonly expiresAt: number;
  readonly requestKey: string | null;
}

/**
 * The table `start_keys`: windows of dedupe keys, and debounced runs. Starts without such a key have no row. The mutex of a
 * key is an advisory lock, because a free key has no row.
 */
export class StartKeys {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Makes concurrent starts with these keys wait for this transaction. Locks them in one order, so that it cannot deadlock. */
  async lock(tx: Transaction, wanted: readonly StartKey[]): Promise<void> {
    if (wanted.length > 0) await tx.query<object>(...this.#sql.lock({ wanted }));
  }

  /** The id of the run whose dedupe window has not ended. */
  async windowOf(
    tx: Transaction,
    { definitionKey, startKey }: Omit<StartKey, 'kind'>,
    now: number,
  ): Promise<string | undefined> {
    const [row] = await tx.query<{ instanceId: string }>(
      ...this.#sql.selectWindow({ definitionKey, startKey, now }),
    );
    return row?.instanceId;
  }

  /** Opens the dedupe window of a new run. */
  async addWindow(
    tx: Transaction,
    run: Pick<KeyRow, 'definitionKey' | 'startKey' | 'instanceKey'>,
    { dedupeMs, now }: { readonly dedupeMs: number; readonly now: number },
  ): Promise<void> {
    const expiresAt = windowEnd(now, dedupeMs);
    await this.#add(tx, { ...run, kind: 'dedupe', expiresAt, requestKey: null }, now);
  }

  /** Returns the runs of debounce keys, started or not. */
  async debounced(
    tx: Transaction,
    wanted: readonly Omit<StartKey, 'kind'>[],
  ): Promise<readonly DebouncedRun[]> {
    if (wanted.length === 0) return [];
    return tx.query<DebouncedRun>(...this.#sql.selectDebounced({ wanted }));
  }

  /** Records the new run of a debounce key. */
  async addDebounced(
    tx: Transaction,
    run: Omit<KeyRow, 'kind' | 'expiresAt'>,
    { startsAt, now }: { readonly startsAt: number; readonly now: number },
  ): Promise<void> {
    await this.#add(tx, { ...run, kind: 'debounce', expiresAt: debounceExpiry(startsAt) }, now);
  }

  /** Records a move of the run of a debounce key. */
  async moved(
    tx: Transaction,
    key: Omit<StartKey, 'kind'> & { readonly requestKey: string },
    startsAt: number,
  ): Promise<void> {
    const { definitionKey, startKey, requestKey } = key;
    const expiresAt = debounceExpiry(startsAt);
    await tx.execute(...this.#sql.move({ definitionKey, startKey, requestKey, expiresAt }));
  }

  async #add(tx: Transaction, row: KeyRow, now: number): Promise<void> {
    await Promise.all([
      tx.execute(...this.#sql.sweep({ now, keptUntil: debounceExpiry(now) })),
      tx.execute(...this.#sql.insert({ rows: [row] })),
    ]);
  }
}

function statements(schema: string) {
  const table = `${schema}.start_keys`;
  const instances = `${schema}.instances`;
  const namespace = `'${schema.replaceAll("'", "''")}:'`;
  const key = { definitionKey: one<number>('int'), startKey: one<string>('text') };
  const primaryKey = 'definition_key, kind, start_key';
  return {
    lock: prepare(
      'perdure_lock_start_keys',
      {
        wanted: rowsOf<StartKey>()({
          definition_key: 'int',
          kind: ['text', ({ kind }) => kind],
          start_key: 'text',
        }),
      },
      ({ wanted }) => `SELECT pg_advisory_xact_lock(hash) FROM (
          SELECT DISTINCT hashtextextended(${namespace} || kind || ':' || start_key, definition_key) AS hash
          FROM ${wanted.as('wanted')} ORDER BY hash OFFSET 0) AS wanted`,
    ),
    selectWindow: prepare(
      'perdure_select_dedupe_window',
      { ...key, now: one<number>('bigint') },
      ({ definitionKey, startKey, now }) => `SELECT run.instance_id AS "instanceId"
        FROM ${table} AS key CROSS JOIN LATERAL (
          SELECT instance_id FROM ${instances} AS one WHERE one.instance_key = key.instance_key LIMIT 1) AS run
        WHERE key.definition_key = ${definitionKey} AND key.kind = 'dedupe' AND key.start_key = ${startKey}
          AND key.expires_at > ${now}`,
    ),
    selectDebounced: prepare(
      'perdure_select_debounced',
      { wanted: rowsOf<Omit<StartKey, 'kind'>>()({ definition_key: 'int', start_key: 'text' }) },
      ({
        wanted,
      }) => `SELECT wanted.definition_key AS "definitionKey", wanted.start_key AS "startKey",
          key.instance_key AS "instanceKey", run.instance_id AS "instanceId", run.created_at AS "createdAt",
          key.request_key AS "requestKey"
        FROM ${wanted.as('wanted')} CROSS JOIN LATERAL (
          SELECT * FROM ${table} AS one WHERE one.definition_key = wanted.definition_key AND one.kind = 'debounce'
            AND one.start_key = wanted.start_key LIMIT 1) AS key
        CROSS JOIN LATERAL (
          SELECT instance_id, created_at FROM ${instances} AS one
          WHERE one.instance_key = key.instance_key LIMIT 1) AS run`,
    ),
    insert: prepare(
      'perdure_insert_start_key',
      {
        rows: rowsOf<KeyRow>()({
          definition_key: 'int',
          kind: ['text', ({ kind }) => kind],
          start_key: 'text',
          instance_key: 'bigint',
          expires_at: 'bigint',
          request_key: 'text',
        }),
      },
      ({ rows }) => `INSERT INTO ${table} (${rows.names}, moves)
        SELECT ${rows.names}, 0 FROM ${rows.as('new')}
        ON CONFLICT (${primaryKey}) DO UPDATE SET instance_key = excluded.instance_key,
          expires_at = excluded.expires_at, moves = 0, request_key = excluded.request_key`,
    ),
    move: prepare(
      'perdure_move_start_key',
      { ...key, requestKey: one<string>('text'), expiresAt: one<number>('bigint') },
      ({ definitionKey, startKey, requestKey, expiresAt }) => `UPDATE ${table}
        SET moves = moves + 1, request_key = ${requestKey}, expires_at = ${expiresAt}
        WHERE definition_key = ${definitionKey} AND kind = 'debounce' AND start_key = ${startKey}`,
    ),
    // Skips keys that another start uses. Keeps those of debounced runs that have not ended, for later.
    sweep: prepare(
      'perdure_sweep_start_keys',
      { now: one<number>('bigint'), keptUntil: one<number>('bigint') },
      ({ now, keptUntil }) => `WITH expired AS MATERIALIZED (
          SELECT ctid AS row_id, kind = 'debounce' AND (SELECT 1 FROM ${instances} AS run
              WHERE run.instance_key = key.instance_key AND run.status = 'pending' LIMIT 1) IS NOT NULL AS is_pending
          FROM ${table} AS key WHERE expires_at <= ${now}
          ORDER BY expires_at LIMIT ${maxSwept} FOR UPDATE SKIP LOCKED
        ), kept AS (
          UPDATE ${table} SET expires_at = ${keptUntil}
          WHERE ctid = ANY (ARRAY(SELECT row_id FROM expired WHERE is_pending))
        )
        DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT row_id FROM expired WHERE NOT is_pending))`,
    ),
  };
}
