import type { CreateTaskResult, NewTask } from '../../contract/tasks.ts';
import type { CommitResult } from '../../contract/turn.ts';
import type { WorkItemAck, WorkOutcome } from '../../contract/work-queue.ts';
import { Effects } from '../../shared/effects.ts';
import { parseToken } from '../../shared/lock-token.ts';
import { numbers, texts } from '../driver/arrays.ts';
import type { Connections, Statement } from '../driver/connection.ts';
import { refusesData } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import type { Definitions } from '../tables/definitions.ts';
import { insertTasksText, insertTasksValues, type InsertedTask } from '../tables/task-rows.ts';
import { isTaskSecret } from '../tables/work-items.ts';

/** Creates task runs in one statement, which is its own transaction: for ids and keys that are free, and known names. */
export class PlainTasks {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #insert: Statement;

  constructor({
    connections,
    definitions,
    schema,
  }: {
    readonly connections: Connections;
    readonly definitions: Definitions;
    readonly schema: string;
  }) {
    this.#connections = connections;
    this.#definitions = definitions;
    this.#insert = {
      name: 'perdure_create_tasks_plainly',
      text: insertTasksText(schema, { strict: true }),
    };
  }

  /** Creates the runs, or answers `undefined` when they have to be created in another way. */
  async create(
    tasks: readonly NewTask[],
    nowParameter: number | null,
  ): Promise<
    { readonly results: readonly CreateTaskResult[]; readonly effects: Effects } | undefined
  > {
    const rows = tasks.flatMap((task) => {
      const definitionKey = this.#definitions.find({
        kind: 'task',
        name: task.name,
        version: null,
      });
      return definitionKey === undefined ? [] : [{ task, definitionKey }];
    });
    if (rows.length < tasks.length) return undefined;
    const inserted = await this.#run([nowParameter, ...insertTasksValues(rows)]);
    if (inserted === undefined) return undefined;
    const effects = new Effects();
    for (const { dueAt } of inserted) effects.due('work', dueAt);
    const results = inserted.map(({ instanceKey }): CreateTaskResult => ({
      kind: 'created',
      instanceKey,
    }));
    return { results, effects };
  }

  async #run(values: readonly unknown[]): Promise<readonly InsertedTask[] | undefined> {
    try {
      return await this.#connections.statement<InsertedTask>('createTasks', this.#insert, values);
    } catch (error) {
      // Something is taken, or one of them is at fault: found out in the other way.
      if (refusesData(error)) return undefined;
      throw error;
    }
  }
}

interface PlainAck extends WorkItemAck {
  readonly outcome: Extract<WorkOutcome, { kind: 'completed' | 'skipped' }>;
}

interface EndedRun {
  readonly itemKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
}

/**
 * Ends task runs that completed or were skipped in one statement, which is its own transaction. It takes the runs before
 * their items, as everybody does, and fails as a whole when one of them is not held, flagged or over.
 */
export class PlainTaskAcks {
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
    const items = `${schema}.worker_queue`;
    // The token and the cancel flag are checked once, on the rows that the delete returns: those are current even if another
    // transaction changed the item after this statement began. A division by zero then rolls the statement back. The status
    // excludes runs that have ended, and so the items of on-fail handlers.
    // Items and runs are each read by one index scan and joined by hash: no other plan has a full join. The delete names
    // keys alone, because a delete that is joined to a list searches the whole list for each of its rows.
    this.#statement = {
      name: 'perdure_end_runs_plainly',
      text: `WITH item AS MATERIALIZED (
          SELECT item_key AS held_key, instance_key, started_at FROM ${items}
          WHERE item_key = ANY ($2::bigint[]) AND locked_until > ${nowSql}
        ), run AS MATERIALIZED (
          SELECT instance_key AS run_key, ctid AS place FROM ${schema}.instances
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM item))
        ), ack AS MATERIALIZED (
          SELECT wanted.*, started_at, place
          FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS wanted (item_key, secret, status, output)
          FULL JOIN item ON held_key = item_key
          FULL JOIN run ON run_key = instance_key
          ORDER BY instance_key
        ), ended AS (
          UPDATE ${schema}.instances AS run
          SET status = ack.status, started_at = ack.started_at, ended_at = ${nowSql}, output = ack.output,
              completed_at = CASE ack.status WHEN 'completed' THEN ${nowSql} END,
              skipped_at = CASE ack.status WHEN 'skipped' THEN ${nowSql} END
          FROM ack
          WHERE run.ctid = ack.place AND (run.status = 'pending') IS TRUE
          RETURNING run.instance_key, run.instance_id, run.incarnation, dedupe_key, item_key
        ), locked AS MATERIALIZED (
          SELECT item.item_key FROM (SELECT item_key FROM ended ORDER BY item_key) AS wanted
          CROSS JOIN LATERAL (
            SELECT one.item_key FROM ${items} AS one WHERE one.item_key = wanted.item_key LIMIT 1 FOR UPDATE) AS item
        ), settled AS (
          DELETE FROM ${items} WHERE item_key = ANY (ARRAY(SELECT item_key FROM locked))
          RETURNING item_key, lock_token, cancel_requested
        ), freed AS (
          DELETE FROM ${schema}.dedupe_keys WHERE instance_key = ANY (ARRAY(
            SELECT instance_key FROM ended WHERE dedupe_key IS NOT NULL))
        ), verdict AS MATERIALIZED (
          SELECT 1 / ((SELECT count(*) FROM settled JOIN ack USING (item_key)
              WHERE lock_token = secret AND NOT cancel_requested) = cardinality($2::bigint[]))::int AS holds
        )
        SELECT item_key AS "itemKey", instance_id AS "instanceId", incarnation FROM verdict LEFT JOIN ended ON holds = 1`,
    };
  }

  /** Ends the runs, or answers `undefined` when they have to be settled in another way. */
  async settle(
    acks: readonly WorkItemAck[],
    nowParameter: number | null,
  ): Promise<{ readonly results: readonly CommitResult[]; readonly effects: Effects } | undefined> {
    if (!arePlain(acks)) return undefined;
    const tokens = acks.map(({ lockToken }) => parseToken(lockToken));
    const rows = await this.#run([
      nowParameter,
      numbers(tokens.map(({ key }) => key)),
      texts(tokens.map(({ secret }) => secret)),
      texts(acks.map(({ outcome }) => outcome.kind)),
      texts(acks.map(({ outcome }) => (outcome.kind === 'completed' ? outcome.payload : null))),
    ]);
    if (rows === undefined) return undefined;
    const byKey = new Map(rows.map((row) => [row.itemKey, row]));
    const effects = new Effects();
    for (const [index, { outcome }] of acks.entries()) {
      const run = byKey.get(tokens[index]?.key ?? -1);
      if (run === undefined) throw new Error('A run that was ended was not answered.');
      const { instanceId, incarnation } = run;
      if (outcome.kind === 'skipped') effects.finished.push(instanceId);
      else effects.completed(instanceId, { incarnation, output: outcome.payload });
    }
    const results = acks.map(({ outcome: { kind } }): CommitResult => ({
      ok: true,
      claimed: [],
      ended: kind,
    }));
    return { results, effects };
  }

  async #run(values: readonly unknown[]): Promise<readonly EndedRun[] | undefined> {
    try {
      return await this.#connections.statement<EndedRun>('ackWorkItems', this.#statement, values);
    } catch (error) {
      // One of them is not as it should be: found out in the other way.
      if (refusesData(error)) return undefined;
      throw error;
    }
  }
}

/** Different task runs that ended well. */
function arePlain(acks: readonly WorkItemAck[]): acks is readonly PlainAck[] {
  const tokens = new Set<string>();
  return acks.every(({ lockToken, outcome }) => {
    const isNew = !tokens.has(lockToken);
    tokens.add(lockToken);
    const endedWell = outcome.kind === 'completed' || outcome.kind === 'skipped';
    return isNew && endedWell && isTaskSecret(parseToken(lockToken).secret);
  });
}
