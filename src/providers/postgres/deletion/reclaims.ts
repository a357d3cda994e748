import { numbers } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { placeOf } from '../driver/columns.ts';
import { nowSql } from '../driver/scope.ts';

/** A history that is to be taken away. */
export interface ReclaimEntry {
  readonly instanceKey: number;
  /** 0: all that the instance had. */
  readonly executionId: number;
  readonly events: number;
}

interface PendingEntry extends ReclaimEntry {
  /** Where the part that was taken away already ends. */
  readonly fromExecution: number;
  readonly fromEvent: number;
}

/** The rows of `pending_reclaims`, and the histories that they stand for. */
export class Reclaims {
  readonly #add: Statement;
  readonly #first: Statement;
  readonly #remove: Statement;
  readonly #shorten: Statement;
  readonly #deleteInstances: Statement;
  readonly #deleteExecutions: Statement;
  readonly #boundary: Statement;
  readonly #deleteUpTo: Statement;
  readonly #hasAny: Statement;
  readonly #isDue: Statement;

  constructor(schema: string) {
    const pending = `${schema}.pending_reclaims`;
    const history = `${schema}.history`;
    this.#add = {
      name: 'perdure_add_reclaims',
      text: `INSERT INTO ${pending} (instance_key, execution_id, events)
        SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[])`,
    };
    // What another process takes away at this moment is left to it.
    this.#first = {
      name: 'perdure_first_reclaims',
      text: `SELECT instance_key AS "instanceKey", execution_id AS "executionId", events,
          from_execution AS "fromExecution", from_event AS "fromEvent"
        FROM ${pending} ORDER BY instance_key, execution_id LIMIT $1 FOR UPDATE SKIP LOCKED`,
    };
    this.#remove = {
      name: 'perdure_remove_reclaims',
      text: `DELETE FROM ${pending} WHERE ctid = ANY (ARRAY(
          SELECT found.place FROM unnest($1::bigint[], $2::int[]) AS done (instance_key, execution_id)
          ${placeOf(pending, 'one.instance_key = done.instance_key AND one.execution_id = done.execution_id')}))`,
    };
    this.#shorten = {
      name: 'perdure_shorten_reclaim',
      text: `UPDATE ${pending} SET events = greatest(events - $3::bigint, 1), from_execution = $4, from_event = $5
        WHERE instance_key = $1 AND execution_id = $2`,
    };
    this.#deleteInstances = {
      name: 'perdure_delete_histories',
      text: `DELETE FROM ${history} WHERE instance_key = ANY ($1::bigint[])`,
    };
    // By their places in the table, which are theirs for ever: an event is never changed.
    this.#deleteExecutions = {
      name: 'perdure_delete_execution_histories',
      text: `DELETE FROM ${history} WHERE ctid = ANY (ARRAY(
          SELECT event.ctid FROM unnest($1::bigint[], $2::int[]) AS pruned (instance_key, execution_id)
          CROSS JOIN LATERAL (
            SELECT one.ctid FROM ${history} AS one
            WHERE one.instance_key = pruned.instance_key AND one.execution_id = pruned.execution_id OFFSET 0) AS event))`,
    };
    const place = '(execution_id, event_id)';
    this.#boundary = {
      name: 'perdure_reclaim_boundary',
      text: `SELECT execution_id AS "executionId", event_id AS "eventId" FROM ${history}
        WHERE instance_key = $1 AND ${place} >= ($2::int, $3::int) ORDER BY execution_id, event_id LIMIT 1 OFFSET $4`,
    };
    this.#deleteUpTo = {
      name: 'perdure_delete_history_part',
      text: `DELETE FROM ${history}
        WHERE instance_key = $1 AND ${place} >= ($2::int, $3::int) AND ${place} < ($4::int, $5::int)`,
    };
    this.#hasAny = {
      name: 'perdure_has_reclaims',
      text: `SELECT FROM ${pending} LIMIT 1`,
    };
    this.#isDue = {
      name: 'perdure_is_reclaim_due',
      text: `SELECT (SELECT TRUE FROM ${pending} LIMIT 1) IS TRUE
        OR (SELECT TRUE FROM ${schema}.tombstones WHERE locked_until <= ${nowSql} LIMIT 1) IS TRUE AS "isDue"`,
    };
  }

  /** Leaves histories for later. An instance that never ran has no events. */
  async add(tx: Transaction, entries: readonly ReclaimEntry[]): Promise<void> {
    const long = entries.filter(({ events }) => events > 0);
    if (long.length === 0) return;
    await tx.execute(this.#add, [...pairs(long), numbers(long.map(({ events }) => events))]);
  }

  /** Takes away the histories of instances at once; answers how many events went. */
  async deleteInstances(tx: Transaction, instanceKeys: readonly number[]): Promise<number> {
    if (instanceKeys.length === 0) return 0;
    return tx.execute(this.#deleteInstances, [numbers(instanceKeys)]);
  }

  /** Takes away the histories of executions at once; answers how many events went. */
  async deleteExecutions(
    tx: Transaction,
    executions: readonly Omit<ReclaimEntry, 'events'>[],
  ): Promise<number> {
    if (executions.length === 0) return 0;
    return tx.execute(this.#deleteExecutions, pairs(executions));
  }

  /** Takes away about so many events that were left; answers how many, and whether there are more. */
  async run(
    tx: Transaction,
    maxRows: number,
  ): Promise<{ readonly rows: number; readonly left: boolean }> {
    const max = Math.max(Math.floor(maxRows), 0);
    const entries = await tx.query<PendingEntry>(this.#first, [max]);
    const rows = await this.#runEntries(tx, entries, max);
    const more = await tx.query(this.#hasAny, []);
    return { rows, left: more.length > 0 };
  }

  /** Says whether there is something to take away, or to forget. */
  async isDue(tx: Transaction, nowParameter: number | null): Promise<boolean> {
    const [row] = await tx.query<{ isDue: boolean }>(this.#isDue, [nowParameter]);
    return row?.isDue === true;
  }

  async #runEntries(
    tx: Transaction,
    entries: readonly PendingEntry[],
    max: number,
  ): Promise<number> {
    const whole: PendingEntry[] = [];
    let events = 0;
    for (const entry of entries) {
      if (events + entry.events > max) break;
      events += entry.events;
      whole.push(entry);
    }
    if (whole.length > 0) return this.#runWhole(tx, whole);
    const [first] = entries;
    return first === undefined ? 0 : this.#runPart(tx, first, max);
  }

  async #runWhole(tx: Transaction, entries: readonly ReclaimEntry[]): Promise<number> {
    const instances = entries.filter(({ executionId }) => executionId === 0);
    const [, ofInstances, ofExecutions] = await Promise.all([
      tx.execute(this.#remove, pairs(entries)),
      this.deleteInstances(
        tx,
        instances.map(({ instanceKey }) => instanceKey),
      ),
      this.deleteExecutions(
        tx,
        entries.filter(({ executionId }) => executionId > 0),
      ),
    ]);
    return ofInstances + ofExecutions;
  }

  /** The beginning of a history that is longer than what may be taken away at once. */
  async #runPart(tx: Transaction, entry: PendingEntry, max: number): Promise<number> {
    const { instanceKey, executionId, fromExecution, fromEvent } = entry;
    // Not from the start: what was taken away is still to be passed there until a vacuum has come by.
    const from = [Math.max(fromExecution, executionId), fromEvent];
    const [end] = await tx.query<{ executionId: number; eventId: number }>(this.#boundary, [
      instanceKey,
      ...from,
      max,
    ]);
    const isWithin = end !== undefined && (executionId === 0 || end.executionId === executionId);
    // Shorter than its row says.
    if (!isWithin) return this.#runWhole(tx, [entry]);
    const to = [end.executionId, end.eventId];
    const [rows] = await Promise.all([
      tx.execute(this.#deleteUpTo, [instanceKey, ...from, ...to]),
      tx.execute(this.#shorten, [instanceKey, executionId, max, ...to]),
    ]);
    return rows;
  }
}

function pairs(executions: readonly Omit<ReclaimEntry, 'events'>[]): readonly [string, string] {
  return [
    numbers(executions.map(({ instanceKey }) => instanceKey)),
    numbers(executions.map(({ executionId }) => executionId)),
  ];
}
