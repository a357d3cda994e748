import { formatToken, parseToken } from '../../shared/lock-token.ts';
import { clock, keys, one, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** Owner of work items: one execution, or all executions of an instance. */
export interface ItemOwner {
  readonly instanceKey: number;
  readonly executionId: number | null;
}

interface Claim {
  readonly itemKey: number;
  readonly secret: string;
}

// Bounds how long a purge holds its row locks.
const maxPurged = 10_000;

/** The table `tombstones`: claims on deleted items, kept until their leases would have expired. */
export class Tombstones {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /**
   * Deletes the work items of locked instances, records the claims on them, and returns their lock tokens. Locks the
   * items first, so that a claim that commits meanwhile is included.
   */
  async bury(
    tx: Transaction,
    owners: readonly ItemOwner[],
    now: number,
  ): Promise<readonly string[]> {
    if (owners.length === 0) return [];
    const [, claims] = await Promise.all([
      tx.execute(...this.#sql.lockItems({ owners })),
      tx.query<Claim>(...this.#sql.bury({ owners, now })),
    ]);
    return claims.map(toToken);
  }

  /** Returns those lock tokens whose items were deleted while claimed. */
  async find(
    tx: Transaction,
    lockTokens: readonly string[],
    nowParameter: number | null,
  ): Promise<ReadonlySet<string>> {
    if (lockTokens.length === 0) return new Set();
    const itemKeys = lockTokens.map((token) => parseToken(token).key);
    const claims = await tx.query<Claim>(...this.#sql.find({ now: nowParameter, itemKeys }));
    return new Set(claims.map(toToken));
  }

  /** Deletes expired tombstones, at most 10,000 per call. */
  async purge(tx: Transaction, now: number): Promise<void> {
    await tx.execute(...this.#sql.purge({ now }));
  }
}

function statements(schema: string) {
  const [items, tombstones] = [`${schema}.worker_queue`, `${schema}.tombstones`];
  const owners = rowsOf<ItemOwner>()({ instance_key: 'bigint', execution_id: 'int' });
  const ofOwners = (ownerRows: string) => `item_key = ANY (ARRAY(
      SELECT found.item_key FROM ${ownerRows}
      CROSS JOIN LATERAL (
        SELECT one.item_key FROM ${items} AS one
        WHERE one.instance_key = owner.instance_key
          AND (owner.execution_id IS NULL OR one.execution_id = owner.execution_id) OFFSET 0) AS found))`;
  return {
    lockItems: prepare(
      'perdure_lock_items_of_owners',
      { owners },
      ({ owners }) =>
        `SELECT FROM ${items} WHERE ${ofOwners(owners.as('owner'))} ORDER BY item_key FOR UPDATE`,
    ),
    bury: prepare(
      'perdure_bury_items',
      { owners, now: one<number>('bigint') },
      ({ owners, now }) => `WITH gone AS (
          DELETE FROM ${items} WHERE ${ofOwners(owners.as('owner'))} RETURNING item_key, lock_token, locked_until)
        INSERT INTO ${tombstones} (item_key, lock_token, deleted_at, locked_until)
        SELECT item_key, lock_token, ${now}, locked_until FROM gone WHERE locked_until > ${now}
        RETURNING item_key AS "itemKey", lock_token AS secret`,
    ),
    find: prepare(
      'perdure_find_tombstones',
      { now: clock, itemKeys: keys() },
      ({ itemKeys }) => `SELECT item_key AS "itemKey", lock_token AS secret FROM ${tombstones}
        WHERE item_key = ANY (${itemKeys}) AND locked_until > ${nowSql}`,
    ),
    purge: prepare(
      'perdure_purge_tombstones',
      { now: one<number>('bigint') },
      ({ now }) => `DELETE FROM ${tombstones} WHERE item_key = ANY (ARRAY(
          SELECT item_key FROM ${tombstones} WHERE locked_until <= ${now}
          ORDER BY locked_until LIMIT ${maxPurged} FOR UPDATE SKIP LOCKED))`,
    ),
  };
}

function toToken({ itemKey, secret }: Claim): string {
  return formatToken(itemKey, secret);
}
