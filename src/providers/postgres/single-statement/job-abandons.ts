import type { StopResult } from '../../contract/cancellation.ts';
import { Effects } from '../../shared/effects.ts';
import { formatToken } from '../../shared/lock-token.ts';
import { nextCheckAt } from '../../rules/session-rules.ts';
import type { AbandonJob } from '../../contract/sessions.ts';
import { texts } from '../driver/arrays.ts';
import type { Connections, Statement } from '../driver/connection.ts';
import { refusesData } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import { taskOperation } from '../tables/work-items.ts';

interface AbandonedRun {
  readonly now: number;
  /** Which of the requests: 1, 2, 3, …; `null` in the one row that there is when none is plain. */
  readonly place: number | null;
  readonly itemKey: number;
  readonly secret: string;
}

interface PlainResults {
  /** `undefined`: it has to be abandoned in another way, and nothing of it has changed. */
  readonly results: readonly (StopResult | undefined)[];
  readonly effects: Effects;
}

// How long after it was abandoned a run is looked at for the first time.
const firstCheckMs = nextCheckAt(0, 0);

/**
 * Abandons jobs whose task runs a worker holds in one statement, which is its own transaction, and leaves the others as
 * they are: 1,000 that are closed at once while they run are told to stop in half the time. Rows are taken in the order
 * of everybody: runs, jobs, items.
 */
export class PlainAbandons {
  readonly #connections: Connections;
  readonly #statement: Statement;

  constructor({
    connections,
    schema,
  }: {
    readonly connections: Connections;
    readonly schema: string;
  }) {
    this.#connections = connections;
    const [runs, jobs, items] = [`${schema}.instances`, `${schema}.jobs`, `${schema}.worker_queue`];
    const isHeld = (item: string) => `${item}.locked_until > ${nowSql}
      AND NOT ${item}.point_of_no_return AND (${item}.cancel_requested_at IS NULL) IS TRUE`;
    // The row of a live run says `pending`, also when it runs: see `RunState`. Each write asks again, because somebody may have changed the row since the statement began. A division by zero then
    // undoes it all.
    this.#statement = {
      name: 'perdure_abandon_plainly',
      text: `WITH asked AS MATERIALIZED (
          SELECT wanted.place, reason, actor, run.instance_key, run_place, job_place, last_seq, item_place, item_key
          FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY
            AS wanted (instance_id, incarnation, session_id, reason, actor, place)
          CROSS JOIN LATERAL (
            SELECT one.instance_key, one.ctid AS run_place FROM ${runs} AS one
            WHERE one.instance_id = wanted.instance_id AND one.incarnation = wanted.incarnation
              AND (one.status = 'pending') IS TRUE AND one.priority IS NOT NULL
            LIMIT 1) AS run
          CROSS JOIN LATERAL (
            SELECT one.ctid AS job_place, one.last_seq FROM ${jobs} AS one
            WHERE one.instance_key = run.instance_key AND coalesce(one.abandoned_at, -1) = -1
              AND (SELECT session_id FROM ${schema}.sessions AS session
                   WHERE session.session_key = one.session_key) = wanted.session_id
            LIMIT 1) AS job
          CROSS JOIN LATERAL (
            SELECT one.ctid AS item_place, one.item_key FROM ${items} AS one
            WHERE one.instance_key = run.instance_key AND one.execution_id = 1 AND one.operation = ${taskOperation}
              AND ${isHeld('one')}
            LIMIT 1) AS item
          ORDER BY run.instance_key
        ), stopped AS (
          UPDATE ${runs} AS run
          SET status = 'canceling', cancel_requested_at = ${nowSql}, cancel_reason = asked.reason,
              cancel_actor = asked.actor
          FROM asked WHERE run.ctid = asked.run_place AND (run.status = 'pending') IS TRUE
          RETURNING 1
        ), marked AS (
          UPDATE ${jobs} AS job
          SET abandoned_at = ${nowSql}, check_at = ${nowSql} + ${firstCheckMs}, waiting_chunks = 0, waiting_bytes = 0
          FROM asked
          WHERE job.ctid = asked.job_place AND coalesce(job.abandoned_at, -1) = -1 AND job.last_seq = asked.last_seq
          RETURNING 1
        ), flagged AS (
          UPDATE ${items} AS item
          SET cancel_requested = TRUE, cancel_requested_at = ${nowSql}, cancel_trigger = 'cancel',
              cancel_reason = asked.reason, next_at = item.locked_until
          FROM (SELECT * FROM asked ORDER BY item_key) AS asked WHERE item.ctid = asked.item_place AND ${isHeld('item')}
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
    };
  }

  /** Abandons those that are plain; `undefined` when somebody changed one of them meanwhile, and nothing was written. */
  async abandon(
    requests: readonly AbandonJob[],
    nowParameter: number | null,
  ): Promise<PlainResults | undefined> {
    const rows = await this.#run([
      nowParameter,
      texts(firstOfEach(requests.map(({ instanceId }) => instanceId))),
      texts(requests.map(({ incarnation }) => incarnation)),
      texts(requests.map(({ sessionId }) => sessionId)),
      texts(requests.map(({ reason }) => reason)),
      texts(requests.map(({ actor }) => actor)),
    ]);
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

  async #run(values: readonly unknown[]): Promise<readonly AbandonedRun[] | undefined> {
    try {
      return await this.#connections.statement('abandonJobs', this.#statement, values);
    } catch (error) {
      // One of them is not as it was: found out in the other way.
      if (refusesData(error)) return undefined;
      throw error;
    }
  }
}

/** What is asked twice is asked in another way the second time. */
function firstOfEach(ids: readonly string[]): readonly (string | null)[] {
  const seen = new Set<string>();
  return ids.map((id) => {
    if (seen.has(id)) return null;
    seen.add(id);
    return id;
  });
}
