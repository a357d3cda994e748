import { encodeMessage } from '../../../model/message.ts';
import type { CancelInstance, StopResult } from '../../contract/cancellation.ts';
import { repeatWindowMs } from '../../shared/deleted-starts.ts';
import { Effects } from '../../shared/effects.ts';
import { formatToken } from '../../shared/lock-token.ts';
import { stopKey } from '../../shared/repeated-stops.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { clock, prepare, rowsOf, strings } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';

interface Flagged {
  readonly now: number;
  readonly instanceKey: number;
  /** The position of the request, from 1. */
  readonly place: number;
  /** The flagged item. `null`: the instance has none. */
  readonly itemKey: number | null;
  readonly secret: string | null;
}

// Larger batches are bulk operations, whose instances are seldom all eligible.
const maxRequests = 8;

/**
 * Cancels running orchestrations in one round trip. Workers must hold all their items, and the request must reach each of
 * them. The first statement locks the instances and then their items. The second checks all fences and writes only if all of
 * them hold. Any other request takes the general path.
 */
export class SingleStatementCancels {
  readonly #connections: Connections;
  readonly #lock: ReturnType<typeof lockStatement>;
  readonly #cancel: ReturnType<typeof cancelStatement>;

  constructor({ connections, schema }: PathParts) {
    this.#connections = connections;
    this.#lock = lockStatement(schema);
    this.#cancel = cancelStatement(schema);
  }

  /** Cancels the instances, or returns `undefined` if the caller has to use the general path. */
  async cancel(
    requests: readonly CancelInstance[],
    now: number | null,
  ): Promise<BatchResult<StopResult> | undefined> {
    const ids = [...new Set(requests.map(({ instanceId }) => instanceId))];
    const isEligible = ids.length === requests.length && ids.length <= maxRequests;
    if (!isEligible || requests.some(({ audit }) => audit !== undefined)) return undefined;
    const flagged = await undefinedIfRefused(
      this.#connections.pipeline('requestCancel', async (tx) => {
        const [, rows] = await Promise.all([
          tx.execute(...this.#lock({ ids })),
          tx.query<Flagged>(...this.#cancel({ now, requests })),
        ]);
        return rows;
      }),
    );
    const [first] = flagged ?? [];
    if (flagged === undefined || first === undefined) return undefined;
    const effects = new Effects();
    effects.due('orchestrations', first.now);
    for (const { now: requestedAt, instanceKey, place, itemKey, secret } of flagged) {
      effects.messages.add(instanceKey);
      if (itemKey === null || secret === null) continue;
      const reason = requests[place - 1]?.reason.toWellFormed() ?? '';
      const cancel = { trigger: 'cancel', reason, requestedAt } as const;
      effects.addCancelRequests([{ lockToken: formatToken(itemKey, secret), cancel }]);
    }
    const results = requests.map((): StopResult => ({
      found: true,
      changed: true,
      status: 'canceling',
    }));
    return { results, effects };
  }
}

// Every transaction locks instances before their items.
function lockStatement(schema: string) {
  const items = `${schema}.worker_queue`;
  return prepare(
    'perdure_lock_for_plain_cancels',
    { ids: strings() },
    ({ ids }) => `WITH instance AS MATERIALIZED (
          SELECT instance_key FROM ${schema}.instances WHERE instance_key = ANY (ARRAY(
            SELECT instance_key FROM ${schema}.instances WHERE instance_id = ANY (${ids})))
          ORDER BY instance_key FOR NO KEY UPDATE
        ), item AS MATERIALIZED (
          SELECT FROM ${items} WHERE item_key = ANY (ARRAY(
            SELECT found.item_key FROM instance CROSS JOIN LATERAL (
              SELECT one.item_key FROM ${items} AS one WHERE one.instance_key = instance.instance_key OFFSET 0) AS found))
          ORDER BY item_key FOR UPDATE
        )
        SELECT FROM item`,
  );
}

const messageOf = ({ reason, actor }: CancelInstance) =>
  encodeMessage({ kind: 'cancel', reason, actor });
const limitOf = ({ reason }: CancelInstance) => encodeMessage({ kind: 'cleanupExpired', reason });

const requestRows = rowsOf<CancelInstance>()({
  instance_id: ['text', ({ instanceId }) => instanceId],
  incarnation: ['text', ({ incarnation }) => incarnation ?? null],
  reason: ['text', ({ reason }) => reason],
  actor: ['text', ({ actor }) => actor],
  cleanup_ms: ['bigint', ({ cleanupMs }) => Math.ceil(cleanupMs)],
  cancel_data: ['text', (request) => messageOf(request).data],
  cancel_payload: ['text', (request) => messageOf(request).payload],
  limit_data: ['text', (request) => limitOf(request).data],
  limit_payload: ['text', (request) => limitOf(request).payload],
  stop_key: ['text', (request) => stopKey('cancel', request) ?? null],
});

/**
 * The statement that cancels running orchestrations. `asked` has the requests whose instances and items pass their fences;
 * every write depends on `verdict`, which counts them.
 *
 * Two kinds of rows are not locked by the first statement: a new instance with the id of a deleted one, and items that a
 * turn inserted while it waited. If an update does not find such a row, 1/0 rolls the statement back. A repeated key
 * violates the primary key of `deleted_starts`. Both take the general path.
 */
function cancelStatement(schema: string) {
  const items = `${schema}.worker_queue`;
  const ifOk = '(SELECT ok FROM verdict)';
  return prepare(
    'perdure_cancel_plainly',
    { now: clock, requests: requestRows },
    ({ requests }) => `WITH asked AS MATERIALIZED (
      SELECT request.*, instance.instance_key, instance.definition_key, instance.row_id
      FROM ${requests.withPlace('request')}
      CROSS JOIN LATERAL (
        SELECT one.ctid AS row_id, one.instance_key, one.incarnation, one.definition_key, one.status, one.priority,
          one.paused_at
        FROM ${schema}.instances AS one WHERE one.instance_id = request.instance_id LIMIT 1) AS instance
      WHERE instance.status = 'running' AND instance.priority IS NULL AND instance.paused_at IS NULL
        AND coalesce(request.incarnation, instance.incarnation) = instance.incarnation
        AND (SELECT 1 FROM ${items} AS item WHERE item.instance_key = instance.instance_key
          AND (item.cancellation = 'abandon' OR item.shielded OR item.point_of_no_return
            OR item.cancel_requested_at IS NOT NULL OR (item.locked_until > ${nowSql}) IS NOT TRUE) LIMIT 1) IS NULL
    ), verdict AS MATERIALIZED (
      SELECT (SELECT count(*) FROM asked) = cardinality(${requests.column('instance_id')}) AS ok
    ), canceled AS (
      UPDATE ${schema}.instances AS instance
      SET status = 'canceling', cancel_requested_at = ${nowSql}, cancel_reason = asked.reason, cancel_actor = asked.actor,
          cancel_cause = NULL
      FROM asked WHERE ${ifOk} AND instance.ctid = asked.row_id
      RETURNING 1
    ), flagged AS (
      UPDATE ${items} AS item
      SET cancel_requested = TRUE, cancel_requested_at = ${nowSql}, cancel_trigger = 'cancel', cancel_reason = asked.reason,
          next_at = item.locked_until
      FROM asked CROSS JOIN LATERAL (
        SELECT one.ctid AS row_id FROM ${items} AS one WHERE one.instance_key = asked.instance_key OFFSET 0) AS found
      WHERE ${ifOk} AND item.ctid = found.row_id
      RETURNING asked.place, item.item_key, item.lock_token
    ), sent AS (
      INSERT INTO ${schema}.orchestrator_queue (instance_key, visible_at, kind, data, payload)
      SELECT instance_key, ${nowSql}, 'cancel', cancel_data, cancel_payload FROM asked WHERE ${ifOk}
      UNION ALL
      SELECT instance_key, ${nowSql} + cleanup_ms, 'cleanupExpired', limit_data, limit_payload FROM asked WHERE ${ifOk}
    ), limited AS (
      INSERT INTO ${schema}.instance_locks AS lock (instance_key, definition_key, cleanup_at, next_at, claims)
      SELECT instance_key, definition_key, ${nowSql} + cleanup_ms, ${nowSql}, 0 FROM asked WHERE ${ifOk}
      ORDER BY instance_key
      ON CONFLICT (instance_key) DO UPDATE
      SET definition_key = abs(lock.definition_key), cleanup_at = excluded.cleanup_at,
          next_at = CASE WHEN lock.lock_token IS NULL THEN least(lock.next_at, excluded.next_at) ELSE lock.next_at END
    ), recorded AS (
      INSERT INTO ${schema}.deleted_starts (start_key, expires_at)
      SELECT stop_key, ${nowSql} + ${repeatWindowMs} FROM asked WHERE ${ifOk} AND stop_key IS NOT NULL
    ), written AS MATERIALIZED (
      SELECT 1 / ((SELECT count(*) FROM canceled) = (SELECT count(*) FROM asked)
        AND (SELECT count(*) FROM flagged) = (SELECT count(*) FROM asked CROSS JOIN LATERAL (
          SELECT FROM ${items} AS one WHERE one.instance_key = asked.instance_key OFFSET 0) AS found))::int AS holds
      FROM verdict WHERE ok
    )
    SELECT ${nowSql} AS now, instance_key AS "instanceKey", asked.place, item_key AS "itemKey", lock_token AS secret
    FROM written CROSS JOIN asked LEFT JOIN flagged ON flagged.place = asked.place`,
  );
}
