import type { CancelTrigger } from '../../../model/failures/errors.ts';
import type { FetchWorkItemsParams, WorkItem } from '../../contract/work-queue.ts';
import { chooseDue } from '../../rules/claims.ts';
import { formatToken, type Secrets } from '../../shared/lock-token.ts';
import { keys, one, optional, prepare, strings } from '../driver/columns.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { TaskRows } from '../tables/task-rows.ts';
import { newTaskSecret, cancelColumns, isFree, type WorkItems } from '../tables/work-items.ts';
import { priorityLevels, unique, workKeys, type WorkNames } from '../wakeups/due-query.ts';
import type { QueueAccess } from '../wakeups/fetching.ts';
import { itemKind, toCancelInfo } from '../../shared/work-item-row.ts';

/** A claimed work item, with the columns of its instance that the handler needs. */
export interface ClaimedItem {
  readonly itemKey: number;
  readonly instanceKey: number;
  /** `null`, like all columns of the instance, if the instance no longer exists. */
  readonly instanceId: string | null;
  readonly incarnation: string;
  readonly instanceDefinitionKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly definitionKey: number;
  readonly payload: string | null;
  readonly options: string | null;
  readonly claims: number;
  readonly failures: number;
  readonly heartbeat: string | null;
  readonly dueAt: number;
  readonly headers: string | null;
  readonly cancelRequestedAt: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
  /** The remaining columns are set for task runs only. */
  readonly isTask: boolean;
  readonly input: string | null;
  readonly runOptions: string | null;
  readonly failure: string | null;
}

/** The store parts that a claim of work items needs. */
export interface ItemClaimParts {
  readonly definitions: Definitions;
  readonly workItems: WorkItems;
  readonly dueItems: DueItems;
}

/** The items of a claim, and its secret. The statement does not return the secret per item: it is known. */
export interface Claimed<Item = ClaimedItem> {
  readonly items: readonly Item[];
  readonly secret: string;
}

/** A claim in one statement. It returns no items if another way is needed or nothing is due. */
export type SingleStatementClaim = (
  params: FetchWorkItemsParams,
) => Promise<Claimed<ClaimedItem & { readonly now: number }>>;

/** Claims due work items in a transaction. */
export async function claimItems(
  { definitions, workItems, dueItems }: ItemClaimParts,
  scope: Scope,
  params: FetchWorkItemsParams & { readonly withoutSuspects?: boolean },
): Promise<readonly WorkItem[]> {
  const { items: claimed, secret } = await dueItems.claim(scope, params);
  if (claimed.length === 0) return [];
  const orphans = claimed.filter(({ instanceId }) => instanceId === null);
  await Promise.all([
    workItems.delete(
      scope.tx,
      orphans.map(({ itemKey }) => itemKey),
    ),
    definitions.load(scope.tx, claimed.flatMap(definitionKeys)),
  ]);
  scope.effects.due('work', scope.now + params.lockMs);
  return toItems(definitions, { items: claimed, secret }, () => scope.now);
}

/** Claims due work items in one round trip, plus one to read definitions that are not cached. */
export async function claimItemsInOneStatement(
  store: QueueAccess & Pick<ItemClaimParts, 'definitions'>,
  claim: SingleStatementClaim,
  params: FetchWorkItemsParams,
): Promise<readonly WorkItem[]> {
  const { definitions } = store;
  const sentAt = store.monotonic();
  const { items: claimed, secret } = await claim(params);
  const [first] = claimed;
  if (first === undefined) return [];
  const { now } = first;
  store.claimed({ topic: 'work', now, sentAt, leaseEnd: now + params.lockMs });
  const needed = claimed.flatMap(definitionKeys);
  if (!definitions.knows(needed)) {
    await store.read('fetchWorkItems', (tx) => definitions.load(tx, needed));
  }
  return toItems(definitions, { items: claimed, secret }, ({ now }) => now);
}

function toItems<Item extends ClaimedItem>(
  definitions: Definitions,
  { items, secret }: Claimed<Item>,
  nowOf: (row: Item) => number,
): readonly WorkItem[] {
  const taskSecret = newTaskSecret(secret);
  const claimed: WorkItem[] = [];
  for (const row of items) {
    const lockToken = formatToken(row.itemKey, row.isTask ? taskSecret : secret);
    const item = toItem(definitions, row, { nowMs: nowOf(row), lockToken });
    if (item !== undefined) claimed.push(item);
  }
  return claimed;
}

export function definitionKeys(row: ClaimedItem): readonly number[] {
  return [row.definitionKey, row.instanceDefinitionKey];
}

export function toItem(
  definitions: Definitions,
  row: ClaimedItem,
  { nowMs, lockToken }: { readonly nowMs: number; readonly lockToken: string },
): WorkItem | undefined {
  const { instanceId } = row;
  if (instanceId === null) return undefined;
  const kind = itemKind(row.isTask, row.operation);
  return {
    kind,
    lockToken,
    instanceKey: row.instanceKey,
    instanceId,
    incarnation: row.incarnation,
    executionId: row.executionId,
    operation: row.operation,
    name: definitions.get(row.definitionKey).name,
    orchestration: definitions.get(row.instanceDefinitionKey).name,
    payload: row.isTask ? row.input : row.payload,
    options: kind === 'task' ? row.runOptions : row.options,
    claims: row.claims,
    failures: row.failures,
    heartbeat: row.heartbeat,
    cancel: toCancelInfo(row),
    nowMs,
    // The claim of a flagged item moves its due time.
    dueAt: Math.min(row.dueAt, nowMs),
    ...(row.headers !== null && { headers: row.headers }),
    ...(kind === 'onFail' && row.failure !== null && { failure: row.failure }),
  };
}

interface DueItem {
  readonly itemKey: number;
  readonly definitionKey: number;
  readonly isTask: boolean;
  readonly priority: number;
  readonly nextAt: number;
  /** Set for a task run that was never claimed. */
  readonly expiresAt: number | null;
}

/**
 * Finds and claims due work items. Each statement reads an index range per name and priority and stops at its limit.
 * It skips rows that another worker is claiming, so a claim never waits for a lock. It does not lock instances:
 * a concurrent cancel or deletion sees the item as held.
 */
export class DueItems {
  readonly #taskRows: TaskRows;
  readonly #secrets: Secrets;
  readonly #statements: ReturnType<typeof statements>;

  constructor({
    schema,
    taskRows,
    secrets,
  }: {
    readonly schema: string;
    readonly taskRows: TaskRows;
    readonly secrets: Secrets;
  }) {
    this.#taskRows = taskRows;
    this.#secrets = secrets;
    this.#statements = statements(schema);
  }

  /** Claims up to `max` items in due order, and reads the clock. */
  async claim(
    scope: Scope,
    {
      max,
      lockMs,
      names,
      tasks,
      worker,
      withoutSuspects = false,
    }: FetchWorkItemsParams & { readonly withoutSuspects?: boolean },
  ): Promise<Claimed> {
    const { tx, nowParameter: now } = scope;
    const { flagged, moveLapsed, due, claim } = this.#statements;
    const wanted = { now, names: unique(names), tasks: unique(tasks) };
    const trusted = { ...wanted, suspect: false, limit: max };
    // Suspects were claimed at least twice without an outcome: one per claim.
    const suspect = { ...wanted, suspect: true, limit: withoutSuspects ? 0 : 1 };
    const [expired, flaggedItems, , , dueItems, suspects] = await scope.begin(
      this.#taskRows.expire(tx, now),
      tx.query<DueItem>(...flagged({ now, limit: max })),
      tx.execute(...moveLapsed(trusted)),
      tx.execute(...moveLapsed(suspect)),
      tx.query<DueItem>(...due(trusted)),
      tx.query<DueItem>(...due(suspect)),
    );
    scope.effects.finished.push(...expired);
    const chosen = chooseDue({
      max,
      // A flagged item only ends and never runs, so it cannot crash the worker.
      trusted: [...flaggedItems, ...dueItems],
      suspects,
      keyOf: ({ itemKey }) => itemKey,
      // The next claim ends runs that expired since this one read them.
    }).filter(({ expiresAt }) => expiresAt === null || expiresAt > scope.now);
    const secret = this.#secrets.next();
    if (chosen.length === 0) return { items: [], secret };
    const taskItems = chosen.filter(({ isTask }) => isTask);
    const claimed = await tx.query<ClaimedItem>(
      ...claim({
        items: chosen.map(({ itemKey }) => itemKey),
        taskKeys: [...new Set(taskItems.map(({ definitionKey }) => definitionKey))],
        secret,
        taskSecret: newTaskSecret(secret),
        worker,
        now: scope.now,
        until: scope.now + Math.ceil(lockMs),
      }),
    );
    const byKey = new Map(claimed.map((item) => [item.itemKey, item]));
    const items = chosen.flatMap(({ itemKey, nextAt }) => {
      const item = byKey.get(itemKey);
      // The claim of a flagged item moves it to the end of its lease.
      return item === undefined ? [] : { ...item, dueAt: nextAt };
    });
    return { items, secret };
  }
}

function statements(schema: string) {
  const table = `${schema}.worker_queue`;
  const now = one<number | null>('bigint');
  const wanted = {
    now,
    names: optional(strings()),
    tasks: optional(strings()),
    suspect: one<boolean>('boolean'),
    limit: one<number>('bigint'),
  };
  return {
    due: prepare('perdure_due_items', wanted, (wanted) =>
      dueItemsText(schema, wanted, { locked: true }),
    ),
    moveLapsed: prepare(
      'perdure_move_lapsed_items',
      wanted,
      (wanted) => `WITH due AS MATERIALIZED (${dueItemsText(schema, wanted, { locked: false })})
        UPDATE ${table} SET next_at = locked_until WHERE item_key = ANY (ARRAY(
          SELECT item_key FROM ${table} WHERE item_key = ANY (ARRAY(${lapsedItemsText(schema, wanted)}))
            AND locked_until <= ${nowSql} FOR UPDATE SKIP LOCKED))`,
    ),
    // Before all priorities: ending them takes no time, and their instances wait for it.
    flagged: prepare(
      'perdure_flagged_items',
      { now, limit: one<number>('bigint') },
      ({ limit }) => `SELECT item_key AS "itemKey", item.definition_key AS "definitionKey",
          next_at AS "nextAt", expires_at AS "expiresAt", ${aboveAllPriorities} AS priority, (
            SELECT kind = 'task' FROM ${schema}.definitions AS definition
            WHERE definition.definition_key = abs(item.definition_key)) AS "isTask"
        FROM ${table} AS item WHERE cancel_requested AND next_at <= ${nowSql} AND ${isFree}
        ORDER BY next_at, cancel_requested_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`,
    ),
    claim: prepare(
      'perdure_claim_items',
      {
        items: keys(),
        taskKeys: keys('int'),
        secret: one<string>('text'),
        taskSecret: one<string>('text'),
        worker: optional(one<string>('text')),
        now: one<number>('bigint'),
        until: one<number>('bigint'),
      },
      ({ items, ...parts }) =>
        `WITH ${claimText(schema, { ...parts, which: `item_key = ANY (${items})` })}`,
    ),
  };
}

const aboveAllPriorities = 101;

/** The SQL text of the parameters that select due items. */
export interface DueItemsText extends WorkNames {
  readonly suspect: string;
  readonly limit: string;
}

// A claimed item keeps its due time until a renewal, a cancel or the end of its lease moves it.
const isInPlace = '(locked_until > next_at) IS NOT TRUE';

interface DueItemsOptions {
  readonly locked: boolean;
  /** A table of the definition keys. Default: those of the names. */
  readonly keys?: string;
  /** Adds items whose lease expired and that were not moved, with a column `lapsed`. Default: false. */
  readonly withLapsed?: boolean;
}

/** Selects due items per name and priority, optionally with row locks. */
export function dueItemsText(
  schema: string,
  { suspect, limit, ...names }: DueItemsText,
  { locked, keys = workKeys(schema, names), withLapsed = false }: DueItemsOptions,
): string {
  return `SELECT found.*, is_task AS "isTask" FROM ${keys} AS wanted CROSS JOIN LATERAL (
      ${priorityLevels(schema, suspect)}
      SELECT item.* FROM level CROSS JOIN LATERAL (
        SELECT item_key AS "itemKey", item.definition_key AS "definitionKey", next_at AS "nextAt",
          expires_at AS "expiresAt", item.priority, item.ctid AS row_id${withLapsed ? `, NOT (${isInPlace}) AS lapsed` : ''}
        FROM ${schema}.worker_queue AS item
        WHERE item.definition_key = wanted_key AND suspect = ${suspect} AND item.priority = level.priority
          AND next_at <= ${nowSql} AND ${withLapsed ? isFree : isInPlace} AND NOT cancel_requested AND lane IS NULL
        ORDER BY next_at, item_key LIMIT ${limit} ${locked ? 'FOR UPDATE SKIP LOCKED' : ''}) AS item
      LIMIT ${limit}) AS found`;
}

/**
 * Selects the keys of items whose lease expired without a renewal and that still have the due time of their claim.
 * Reads only those that could come before the last of the rows in `due`, a common table of the query around it.
 */
function lapsedItemsText(schema: string, { suspect, limit, ...names }: DueItemsText): string {
  return `SELECT found.item_key FROM ${workKeys(schema, names)} AS wanted LEFT JOIN LATERAL (
      SELECT last.priority AS lowest, last."nextAt" AS latest, last."itemKey" AS latest_key FROM due AS last
      WHERE last."definitionKey" = wanted_key
        AND (SELECT count(*) FROM due AS one WHERE one."definitionKey" = wanted_key) >= ${limit}
      ORDER BY last.priority, last."nextAt" DESC, last."itemKey" DESC LIMIT 1) AS full_page ON TRUE
    CROSS JOIN LATERAL (
      ${priorityLevels(schema, suspect)}
      SELECT item.item_key FROM level CROSS JOIN LATERAL (
        SELECT item_key FROM ${schema}.worker_queue AS item
        WHERE item.definition_key = wanted_key AND suspect = ${suspect} AND item.priority = level.priority
          AND (next_at, item_key) <= (CASE WHEN level.priority = lowest THEN latest ELSE ${nowSql} END,
            CASE WHEN level.priority = lowest THEN latest_key ELSE 9223372036854775807 END) AND NOT cancel_requested AND lane IS NULL
          AND locked_until > next_at AND locked_until <= ${nowSql} OFFSET 0) AS item
      WHERE level.priority >= lowest OR lowest IS NULL) AS found`;
}

/** The SQL expressions that a claim consists of. */
export interface ClaimParts {
  /** The condition for the items. This transaction has locked all of them. */
  readonly which: string;
  /** An array of the definition keys that are tasks. */
  readonly taskKeys: string;
  /** The secret for activities, and the one for task runs. */
  readonly secret: string;
  readonly taskSecret: string;
  readonly worker: string;
  readonly now: string;
  readonly until: string;
  /** More common tables, which may read `claimed`. */
  readonly more?: string;
}

/**
 * The common tables that claim locked items, and the query that reads them; they follow a `WITH`.
 * A claim updates the item only, usually without indexed columns, so that the update is heap-only (HOT).
 * The FULL JOIN forces a hash join with one index scan for all instances.
 */
export function claimText(schema: string, parts: ClaimParts): string {
  const { which, taskKeys, secret, taskSecret, worker, now, until, more = '' } = parts;
  return `claimed AS (
      UPDATE ${schema}.worker_queue AS item
      SET lock_token = CASE WHEN item.definition_key = ANY (${taskKeys}) THEN ${taskSecret} ELSE ${secret} END,
          locked_until = ${until}, claims = claims + 1, claimed_by = ${worker}, claimed_at = ${now},
          started_at = coalesce(started_at, ${now}), expires_at = NULL,
          next_at = CASE WHEN cancel_requested THEN ${until} ELSE next_at END
      WHERE ${which}
      RETURNING item.*
    ), owner AS MATERIALIZED (
      SELECT instance_key AS owner_key, instance_id, incarnation, definition_key AS owner_definition_key,
        priority AS run_priority, input, options AS run_options, failure, headers
      FROM ${schema}.instances WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM claimed))
    )${more}
    SELECT ${now} AS "now", item_key AS "itemKey", instance_key AS "instanceKey",
      instance_id AS "instanceId", incarnation, owner_definition_key AS "instanceDefinitionKey",
      execution_id AS "executionId", operation, definition_key AS "definitionKey", payload, options, claims, failures,
      heartbeat, ${cancelColumns}, run_priority IS NOT NULL AS "isTask", input, run_options AS "runOptions", failure,
      next_at AS "dueAt", headers
    FROM claimed AS item FULL JOIN owner ON owner_key = instance_key
    ORDER BY priority DESC, next_at, item_key`;
}
