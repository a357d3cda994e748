import type { StopResult } from '../../contract/cancellation.ts';
import type { AbandonJob } from '../../contract/sessions.ts';
import { nextCheckAt } from '../../rules/session-rules.ts';
import { Effects } from '../../shared/effects.ts';
import { formatToken } from '../../shared/lock-token.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { clock, prepare, rowsOf } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import { taskOperation } from '../../shared/work-item-row.ts';

interface AbandonedRun {
  readonly now: number;
  /** The position of the request: 1, 2, 3, …; `null` in the only row if no request is eligible. */
  readonly place: number | null;
  readonly itemKey: number;
  readonly secret: string;
}

// Delay from the abandon to the first check of the run.
const firstCheckMs = nextCheckAt(0, 0);

/**
 * Abandons jobs whose task runs are claimed, in one statement, which is its own transaction. Leaves other jobs unchanged.
 * It halves the time to stop 1,000 running jobs that are closed together. Rows are locked in the order of all
 * transactions: runs, jobs, items.
 */
export class SingleStatementAbandons {
  readonly #connections: Connections;
  readonly #abandon: ReturnType<typeof abandonStatement>;

  constructor({ connections, schema }: PathParts) {
    this.#connections = connections;
    this.#abandon = abandonStatement(schema);
  }

  /**
   * Abandons eligible jobs. The result of a job that is not eligible is `undefined`, and it is unchanged. Returns
   * `undefined` if a job was changed meanwhile; then nothing was written.
   */
  async abandon(
    requests: readonly AbandonJob[],
    now: number | null,
  ): Promise<BatchResult<StopResult | undefined> | undefined> {
    const statement = this.#abandon({ now, requests: withoutRepeats(requests) });
    const rows = await undefinedIfRefused(
      this.#connections.statement<AbandonedRun>('abandonJobs', ...statement),
    );
    if (rows === undefined) return undefined;
    const effects = new Effects();
    const done = new Set<number>();
    for (const { now, place, itemKey, secret } of rows) {
      const request = place === null ? undefined : requests[place - 1];
      if (place === null || request === undefined) continue;
      done.add(place);
      const reason = request.reason.toWellFormed();
      const cancel = { trigger: 'cancel', reason, requestedAt: now } as const;
      effects.addCancelRequests([{ lockToken: formatToken(itemKey, secret), cancel }]);
    }
    const results = requests.map((_, index): StopResult | undefined =>
      done.has(index + 1) ? { found: true, changed: true, status: 'canceling' } : undefined,
    );
    return { results, effects };
  }
}

type FirstRequest = Omit<AbandonJob, 'instanceId'> & { readonly instanceId: string | null };

/** Clears the id of repeated requests, which makes them ineligible. */
function withoutRepeats(requests: readonly AbandonJob[]): readonly FirstRequest[] {
  const seen = new Set<string>();
  return requests.map((request) => {
    if (seen.has(request.instanceId)) return { ...request, instanceId: null };
    seen.add(request.instanceId);
    return request;
  });
}

const requestRows = rowsOf<FirstRequest>()({
  instance_id: ['text', ({ instanceId }) => instanceId],
  incarnation: ['text', ({ incarnation }) => incarnation],
  session_id: ['text', ({ sessionId }) => sessionId],
  reason: ['text', ({ reason }) => reason],
  actor: ['text', ({ actor }) => actor],
});

/**
 * The statement that abandons jobs. A live run has the status `pending` even while it runs: see `RunState`.
 *
 * `asked` selects the eligible jobs. Each write repeats its conditions, because another transaction may have changed the
 * row since the statement began. If a write finds fewer rows than `asked`, 1/0 rolls the statement back.
 */
function abandonStatement(schema: string) {
  const [runs, jobs, items] = [`${schema}.instances`, `${schema}.jobs`, `${schema}.worker_queue`];
  const isHeld = (item: string) => `${item}.locked_until > ${nowSql}
      AND NOT ${item}.point_of_no_return AND (${item}.cancel_requested_at IS NULL) IS TRUE`;
  return prepare(
    'perdure_abandon_plainly',
    { now: clock, requests: requestRows },
    ({ requests }) => `WITH asked AS MATERIALIZED (
          SELECT wanted.place, reason, actor, run.instance_key, run_row_id, job_row_id, last_seq, item_row_id, item_key
          FROM ${requests.withPlace('wanted')}
          CROSS JOIN LATERAL (
            SELECT one.instance_key, one.ctid AS run_row_id FROM ${runs} AS one
            WHERE one.instance_id = wanted.instance_id AND one.incarnation = wanted.incarnation
              AND (one.status = 'pending') IS TRUE AND one.priority IS NOT NULL
            LIMIT 1) AS run
          CROSS JOIN LATERAL (
            SELECT one.ctid AS job_row_id, one.last_seq FROM ${jobs} AS one
            WHERE one.instance_key = run.instance_key AND coalesce(one.abandoned_at, -1) = -1
              AND (SELECT session_id FROM ${schema}.sessions AS session
                   WHERE session.session_key = one.session_key) = wanted.session_id
            LIMIT 1) AS job
          CROSS JOIN LATERAL (
            SELECT one.ctid AS item_row_id, one.item_key FROM ${items} AS one
            WHERE one.instance_key = run.instance_key AND one.execution_id = 1 AND one.operation = ${taskOperation}
              AND ${isHeld('one')}
            LIMIT 1) AS item
          ORDER BY run.instance_key
        ), stopped AS (
          UPDATE ${runs} AS run
          SET status = 'canceling', cancel_requested_at = ${nowSql}, cancel_reason = asked.reason,
              cancel_actor = asked.actor
          FROM asked WHERE run.ctid = asked.run_row_id AND (run.status = 'pending') IS TRUE
          RETURNING 1
        ), marked AS (
          UPDATE ${jobs} AS job
          SET abandoned_at = ${nowSql}, check_at = ${nowSql} + ${firstCheckMs}, waiting_chunks = 0, waiting_bytes = 0
          FROM asked
          WHERE job.ctid = asked.job_row_id AND coalesce(job.abandoned_at, -1) = -1 AND job.last_seq = asked.last_seq
          RETURNING 1
        ), flagged AS (
          UPDATE ${items} AS item
          SET cancel_requested = TRUE, cancel_requested_at = ${nowSql}, cancel_trigger = 'cancel',
              cancel_reason = asked.reason, next_at = item.locked_until
          FROM (SELECT * FROM asked ORDER BY item_key) AS asked WHERE item.ctid = asked.item_row_id AND ${isHeld('item')}
          RETURNING asked.place, item.item_key, item.lock_token
        ), gone AS (
          DELETE FROM ${schema}.chunks
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM asked WHERE last_seq > 0))
        ), verdict AS MATERIALIZED (
          SELECT 1 / ((SELECT count(*) FROM stopped) = (SELECT count(*) FROM asked)
            AND (SELECT count(*) FROM marked) = (SELECT count(*) FROM asked)
            AND (SELECT count(*) FROM flagged) = (SELECT count(*) FROM asked))::int AS holds
        )
        SELECT ${nowSql} AS now, place, item_key AS "itemKey", lock_token AS secret
        FROM verdict LEFT JOIN flagged ON holds = 1`,
  );
}
