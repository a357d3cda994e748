import {
  deletedStartKey,
  type DeletedStart,
  type RepeatableStart,
} from '../../shared/deleted-starts.ts';
import { clock, one, prepare, rowsOf, strings } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

// Bounds how long a purge holds its row locks.
const maxPurged = 10_000;

/** The table `deleted_starts`: starts that a client may repeat although their instances were deleted. */
export class DeletedStarts {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Records starts of instances that are about to be deleted. Deletes expired ones. */
  async add(tx: Transaction, starts: readonly DeletedStart[], now: number): Promise<void> {
    if (starts.length === 0) return;
    await Promise.all([this.purge(tx, now), tx.execute(...this.#sql.add({ starts }))]);
  }

  /** Returns the keys of those starts that repeat one whose instance was deleted. */
  async find(tx: Transaction, starts: readonly RepeatableStart[]): Promise<ReadonlySet<string>> {
    const startKeys = starts.filter(isRepeat).map(deletedStartKey);
    if (startKeys.length === 0) return new Set();
    const found = await tx.query<{ startKey: string }>(...this.#sql.find({ startKeys }));
    return new Set(found.map(({ startKey }) => startKey));
  }

  /** Returns those of the keys that were recorded and have not expired. */
  async findLiveKeys(
    tx: Transaction,
    startKeys: readonly string[],
    now: number | null,
  ): Promise<ReadonlySet<string>> {
    if (startKeys.length === 0) return new Set();
    const found = await tx.query<{ startKey: string }>(...this.#sql.findLive({ now, startKeys }));
    return new Set(found.map(({ startKey }) => startKey));
  }

  /** Creates instances, except those of repeats whose instances were deleted. The result of those is `exists`. */
  async createUnlessDeleted<Start extends RepeatableStart, Result extends { kind: string }>(
    tx: Transaction,
    starts: readonly Start[],
    create: (starts: readonly Start[]) => Promise<readonly Result[]>,
  ): Promise<readonly (Result | { readonly kind: 'exists' })[]> {
    if (!starts.some(isRepeat)) return create(starts);
    const deleted = await this.find(tx, starts);
    const isOpen = (start: Start) => !isRepeat(start) || !deleted.has(deletedStartKey(start));
    const open = starts.filter(isOpen);
    const results = open.length === 0 ? [] : await create(open);
    const others = open.filter((_, index) => results[index]?.kind !== exists.kind);
    // They may have waited for a deletion that had not committed at the first query.
    if ((await this.find(tx, others)).size > 0) throw deletedMeanwhile();
    const next = results.values();
    return starts.map((start) => (isOpen(start) ? next.next().value : undefined) ?? exists);
  }

  /** Deletes starts that no client repeats any more, at most 10,000 per call. */
  async purge(tx: Transaction, now: number): Promise<void> {
    await tx.execute(...this.#sql.purge({ now }));
  }
}

const exists = { kind: 'exists' } as const;

function isRepeat(start: RepeatableStart): boolean {
  return start.isRepeat === true;
}

/** Rolls the transaction back and runs it again, with the code of a serialization failure. */
function deletedMeanwhile(): Error {
  return Object.assign(new Error('The instance of a repeated start was deleted concurrently.'), {
    code: '40001',
  });
}

function statements(schema: string) {
  const table = `${schema}.deleted_starts`;
  const starts = rowsOf<DeletedStart>()({ start_key: 'text', expires_at: 'bigint' });
  return {
    add: prepare(
      'perdure_add_deleted_starts',
      { starts },
      ({ starts }) => `INSERT INTO ${table} (${starts.names}) SELECT * FROM ${starts.as('start')}
        ON CONFLICT (start_key) DO UPDATE SET expires_at = excluded.expires_at`,
    ),
    find: prepare(
      'perdure_find_deleted_starts',
      { startKeys: strings() },
      ({ startKeys }) =>
        `SELECT start_key AS "startKey" FROM ${table} WHERE start_key = ANY (${startKeys})`,
    ),
    findLive: prepare(
      'perdure_find_live_deleted_starts',
      { now: clock, startKeys: strings() },
      ({ startKeys }) => `SELECT start_key AS "startKey" FROM ${table}
        WHERE start_key = ANY (${startKeys}) AND expires_at > ${nowSql}`,
    ),
    purge: prepare(
      'perdure_purge_deleted_starts',
      { now: one<number>('bigint') },
      ({ now }) => `DELETE FROM ${table} WHERE start_key = ANY (ARRAY(
          SELECT start_key FROM ${table} WHERE expires_at <= ${now}
          ORDER BY expires_at LIMIT ${maxPurged} FOR UPDATE SKIP LOCKED))`,
    ),
  };
}
