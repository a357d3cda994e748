import type { CreateTaskResult, NewTask } from '../../contract/tasks.ts';
import type { CommitResult } from '../../contract/turn.ts';
import type { WorkItemAck, WorkOutcome, FetchWorkItemsParams } from '../../contract/work-queue.ts';
import { Effects } from '../../shared/effects.ts';
import { parseToken, type Secrets } from '../../shared/lock-token.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { clock, prepare, rowsOf, one, optional, strings } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import { claimText, dueItemsText, type Claimed, type ClaimedItem } from '../queues/item-claims.ts';
import type { Definitions } from '../tables/definitions.ts';
import { listEnd } from '../tables/instance-rows.ts';
import { insertTasks, type InsertedTasks } from '../tables/task-rows.ts';
import { isValidLane } from '../../rules/limits.ts';
import { freesPlace, isTaskSecret, newTaskSecret, isFree } from '../tables/work-items.ts';
import { isKeyed } from '../tasks/keyed-tasks.ts';
import { priorityLevels, unique, workKeys } from '../wakeups/due-query.ts';

/**
 * Creates task runs in one statement, which is its own transaction. All ids and dedupe keys must be free, and all names
 * in the cache.
 */
export class SingleStatementTaskCreation {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #limited: PathParts['limited'];
  readonly #insert: ReturnType<typeof insertTasks>;

  constructor({ connections, definitions, limited, schema }: PathParts) {
    this.#connections = connections;
    this.#definitions = definitions;
    this.#limited = limited;
    this.#insert = insertTasks(schema, { name: 'perdure_create_tasks_plainly', strict: true });
  }

  /** Creates the runs, or returns `undefined` if the caller has to use the general path. */
  async create(
    tasks: readonly NewTask[],
    now: number | null,
  ): Promise<BatchResult<CreateTaskResult> | undefined> {
    const isPlain = (task: NewTask) =>
      task.tags === undefined &&
      task.timeoutMs === undefined &&
      task.isRepeat === undefined &&
      !isKeyed(task);
    if (!tasks.every(isPlain)) return undefined;
    const rows = tasks.flatMap((task) => {
      const wanted = { kind: 'task', name: task.name, version: null } as const;
      const definitionKey = this.#definitions.find(wanted);
      if (definitionKey === undefined) return [];
      // The general path makes the definition limited, and rejects invalid keys.
      const isKnown =
        task.lane === undefined || (this.#limited.has(definitionKey) && isValidLane(task.lane));
      return isKnown ? [{ task, definitionKey }] : [];
    });
    if (rows.length < tasks.length) return undefined;
    const inserted = await undefinedIfRefused(
      this.#connections.statement<InsertedTasks>(
        'createTasks',
        ...this.#insert(rows)({ now, rows }),
      ),
    );
    if (inserted === undefined) return undefined;
    const effects = new Effects();
    const results: CreateTaskResult[] = [];
    for (const { instanceKeys, dueAt } of inserted) {
      if (instanceKeys === '') continue;
      effects.due('work', dueAt);
      for (const key of instanceKeys.split(',')) {
        results.push({ kind: 'created', instanceKey: Number(key) });
      }
    }
    return { results, effects };
  }
}

interface TokenAck {
  readonly key: number;
  readonly secret: string;
  readonly outcome: Extract<WorkOutcome, { kind: 'completed' | 'skipped' }>;
}

interface EndedRun {
  readonly itemKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
}

/**
 * Ends completed and skipped task runs in one statement, which is its own transaction. It locks runs before items, like
 * every transaction. It fails as a whole if an item is not claimed or is flagged, or if a run has ended.
 */
export class SingleStatementTaskAcks {
  readonly #connections: Connections;
  readonly #end: ReturnType<typeof endStatement>;

  constructor({ connections, schema }: PathParts) {
    this.#connections = connections;
    this.#end = endStatement(schema);
  }

  /** Ends the runs, or returns `undefined` if the caller has to use the general path. */
  async settle(
    workAcks: readonly WorkItemAck[],
    now: number | null,
  ): Promise<BatchResult<CommitResult> | undefined> {
    const acks = toEligible(workAcks);
    if (acks === undefined) return undefined;
    const runs = await undefinedIfRefused(
      this.#connections.statement<EndedRun>('ackWorkItems', ...this.#end({ now, acks })),
    );
    return runs && toResult(acks, runs);
  }
}

/** Returns the acks with their tokens, or `undefined` unless all complete or skip task runs, each a different one. */
function toEligible(acks: readonly WorkItemAck[]): readonly TokenAck[] | undefined {
  const tokens = new Set<string>();
  const eligible: TokenAck[] = [];
  for (const { lockToken, outcome } of acks) {
    if (outcome.kind !== 'completed' && outcome.kind !== 'skipped') return undefined;
    const { key, secret } = parseToken(lockToken);
    if (tokens.has(lockToken) || !isTaskSecret(secret)) return undefined;
    tokens.add(lockToken);
    eligible.push({ key, secret, outcome });
  }
  return eligible;
}

function toResult(acks: readonly TokenAck[], runs: readonly EndedRun[]): BatchResult<CommitResult> {
  const byKey = new Map(runs.map((run) => [run.itemKey, run]));
  const effects = new Effects();
  const results = acks.map(({ key, outcome, secret }): CommitResult => {
    const run = byKey.get(key);
    if (run === undefined) throw new Error(`The statement did not return the run of item ${key}.`);
    const { instanceId, incarnation } = run;
    if (outcome.kind === 'skipped') effects.finished.push(instanceId);
    else effects.completed(instanceId, { incarnation, output: outcome.payload });
    if (freesPlace(secret)) effects.due('work', 0);
    return { ok: true, claimed: [], ended: outcome.kind };
  });
  return { results, effects };
}

const ackRows = rowsOf<TokenAck>()({
  item_key: ['bigint', ({ key }) => key],
  secret: ['text', ({ secret }) => secret],
  status: ['text', ({ outcome }) => outcome.kind],
  output: ['text', ({ outcome }) => (outcome.kind === 'completed' ? outcome.payload : null)],
});

/**
 * The statement that ends runs.
 *
 * - Checks the token, the cancel flag and the pause on the rows that the DELETE returns: those are current even if
 *   another transaction changed the item after this statement began. If a check fails, 1/0 rolls the statement back.
 *   The status excludes runs that have ended, and so the items of on-fail handlers. Paused runs have negative definition
 *   keys in their items, and take the general path. To read `paused_at` instead, PostgreSQL would parse most columns of
 *   the run once more.
 * - Reads items and runs by one index scan each. FULL JOIN forces a hash join. Locks items in the order of their keys.
 * - Deletes by a list of keys, because a DELETE joined to a list searches the whole list for each row.
 */
function endStatement(schema: string) {
  const items = `${schema}.worker_queue`;
  return prepare(
    'perdure_end_runs_plainly',
    { now: clock, acks: ackRows },
    ({ acks }) => `WITH item AS MATERIALIZED (
          SELECT item_key AS held_key, instance_key, started_at FROM ${items}
          WHERE item_key = ANY (${acks.columnOfUnknownSize('item_key')}) AND locked_until > ${nowSql}
        ), run AS MATERIALIZED (
          SELECT instance_key AS run_key, ctid AS row_id FROM ${schema}.instances
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM item))
        ), ack AS MATERIALIZED (
          SELECT wanted.*, started_at, row_id
          FROM ${acks.asOfUnknownSize('wanted')}
          FULL JOIN item ON held_key = item_key
          FULL JOIN run ON run_key = instance_key
          ORDER BY instance_key
        ), ended AS (
          UPDATE ${schema}.instances AS run
          SET status = ack.status, started_at = ack.started_at, ended_at = ${nowSql}, output = ack.output,
              completed_at = CASE ack.status WHEN 'completed' THEN ${nowSql} END,
              skipped_at = CASE ack.status WHEN 'skipped' THEN ${nowSql} END, ${listEnd('ack.status')}
          FROM ack
          WHERE run.ctid = ack.row_id AND (run.status = 'pending') IS TRUE
          RETURNING run.instance_key, run.instance_id, run.incarnation, dedupe_key, item_key
        ), locked AS MATERIALIZED (
          SELECT item_key FROM ${items} WHERE item_key = ANY (ARRAY(SELECT item_key FROM ended))
          ORDER BY item_key FOR UPDATE
        ), settled AS (
          DELETE FROM ${items} WHERE item_key = ANY (ARRAY(SELECT item_key FROM locked))
          RETURNING item_key, lock_token, cancel_requested, definition_key
        ), freed AS (
          DELETE FROM ${schema}.dedupe_keys WHERE instance_key = ANY (ARRAY(
            SELECT instance_key FROM ended WHERE dedupe_key IS NOT NULL))
        ), verdict AS MATERIALIZED (
          SELECT 1 / ((SELECT count(*) FROM settled JOIN ack USING (item_key)
              WHERE lock_token = secret AND NOT cancel_requested AND definition_key > 0) = cardinality(${acks.column('item_key')}))::int AS holds
        )
        SELECT item_key AS "itemKey", instance_id AS "instanceId", incarnation FROM verdict LEFT JOIN ended ON holds = 1`,
  );
}

/**
 * Claims work items in one statement, which is its own transaction. Claims nothing while an item is due that is flagged,
 * expired, suspect, or whose lease has expired: the general path handles those first.
 */
export class SingleStatementClaims {
  readonly #connections: Connections;
  readonly #secrets: Secrets;
  readonly #claim: ReturnType<typeof claimStatement>;

  constructor({ connections, secrets, schema }: PathParts) {
    this.#connections = connections;
    this.#secrets = secrets;
    this.#claim = claimStatement(schema);
  }

  /** Claims up to `max` items in due order. Returns none if the caller has to use the general path. */
  async claim(
    { max, lockMs, names, tasks, worker }: FetchWorkItemsParams,
    now: number | null,
  ): Promise<Claimed<ClaimedItem & { readonly now: number }>> {
    const secret = this.#secrets.next();
    const claim = {
      now,
      names: unique(names),
      tasks: unique(tasks),
      lockMs: Math.ceil(lockMs),
      limit: max,
      secret,
      taskSecret: newTaskSecret(secret),
      worker,
    };
    const items = await this.#connections.statement<ClaimedItem & { readonly now: number }>(
      'fetchWorkItems',
      ...this.#claim(claim),
    );
    return { items, secret };
  }
}

/**
 * The statement that claims. It finds the definitions once, and walks each range of the index once for the priorities and once
 * for the items: the start of a range may have many entries of items that were deleted since the last vacuum.
 */
function claimStatement(schema: string) {
  const table = `${schema}.worker_queue`;
  return prepare(
    'perdure_claim_plainly',
    {
      now: clock,
      names: optional(strings()),
      tasks: optional(strings()),
      lockMs: one<number>('bigint'),
      limit: one<number>('bigint'),
      secret: one<string>('text'),
      taskSecret: one<string>('text'),
      worker: optional(one<string>('text')),
    },
    ({ names, tasks, lockMs, limit, secret, taskSecret, worker }) => {
      const wanted = { names, tasks, suspect: 'FALSE', limit };
      const suspect = `SELECT 1 FROM claimable AS wanted CROSS JOIN LATERAL (
        ${priorityLevels(schema, 'TRUE')}
        SELECT FROM level CROSS JOIN LATERAL (
          SELECT FROM ${table} AS due
          WHERE due.definition_key = wanted_key AND due.suspect AND NOT cancel_requested AND lane IS NULL
            AND due.priority = level.priority AND next_at <= ${nowSql} AND ${isFree} LIMIT 1) AS head) AS found LIMIT 1`;
      return `WITH claimable AS MATERIALIZED ${workKeys(schema, wanted)}, clear AS MATERIALIZED (
          SELECT (SELECT 1 FROM ${table} WHERE cancel_requested AND next_at <= ${nowSql} AND ${isFree} ORDER BY next_at LIMIT 1) IS NULL
            AND (SELECT 1 FROM ${table} WHERE expires_at <= ${nowSql} ORDER BY expires_at LIMIT 1) IS NULL
            AND (${suspect}) IS NULL AS holds
        ), due AS MATERIALIZED (
          SELECT * FROM (SELECT holds FROM clear WHERE holds) AS clear CROSS JOIN LATERAL (
            ${dueItemsText(schema, wanted, { locked: true, keys: 'claimable', withLapsed: true })}) AS found
        ), chosen AS MATERIALIZED (
          SELECT row_id, "definitionKey", "isTask" FROM due WHERE (SELECT 1 FROM due WHERE lapsed LIMIT 1) IS NULL
          ORDER BY priority DESC, "nextAt", "itemKey" LIMIT ${limit}
        ), ${claimText(schema, {
          which: 'ctid = ANY (ARRAY(SELECT row_id FROM chosen))',
          taskKeys: 'ARRAY(SELECT DISTINCT "definitionKey" FROM chosen WHERE "isTask")',
          secret,
          taskSecret,
          worker,
          now: nowSql,
          until: `${nowSql} + ${lockMs}`,
        })}`;
    },
  );
}
