import { numbers } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { formatToken, parseToken } from '../../shared/lock-token.ts';
import { nowSql } from '../driver/scope.ts';

/** Whose items are meant: those of one execution, or of a whole instance. */
export interface ItemOwner {
  readonly instanceKey: number;
  readonly executionId: number | null;
}

interface Claim {
  readonly itemKey: number;
  readonly secret: string;
}

// Bounds how long a purge holds its rows.
const maxPurged = 10_000;

/** The rows of `tombstones`: claims whose items were deleted under them, until their leases would have ended. */
export class Tombstones {
  readonly #lockItems: Statement;
  readonly #bury: Statement;
  readonly #find: Statement;
  readonly #purge: Statement;

  constructor(schema: string) {
    const items = `${schema}.worker_queue`;
    const ofOwners = `item_key = ANY (ARRAY(
      SELECT found.item_key FROM unnest($1::bigint[], $2::int[]) AS owner (instance_key, execution_id)
      CROSS JOIN LATERAL (
        SELECT one.item_key FROM ${items} AS one
        WHERE one.instance_key = owner.instance_key
          AND (owner.execution_id IS NULL OR one.execution_id = owner.execution_id) OFFSET 0) AS found))`;
    this.#lockItems = {
      name: 'perdure_lock_items_of_owners',
      text: `SELECT FROM ${items} WHERE ${ofOwners} ORDER BY item_key FOR UPDATE`,
    };
    this.#bury = {
      name: 'perdure_bury_items',
      text: `WITH gone AS (
          DELETE FROM ${items} WHERE ${ofOwners} RETURNING item_key, lock_token, locked_until)
        INSERT INTO ${schema}.tombstones (item_key, lock_token, deleted_at, locked_until)
        SELECT item_key, lock_token, $3::bigint, locked_until FROM gone WHERE locked_until > $3::bigint
        RETURNING item_key AS "itemKey", lock_token AS secret`,
    };
    this.#find = {
      name: 'perdure_find_tombstones',
      text: `SELECT item_key AS "itemKey", lock_token AS secret FROM ${schema}.tombstones
        WHERE item_key = ANY ($2::bigint[]) AND locked_until > ${nowSql}`,
    };
    this.#purge = {
      name: 'perdure_purge_tombstones',
      text: `DELETE FROM ${schema}.tombstones WHERE item_key = ANY (ARRAY(
          SELECT item_key FROM ${schema}.tombstones WHERE locked_until <= $1::bigint
          ORDER BY locked_until LIMIT ${maxPurged} FOR UPDATE SKIP LOCKED))`,
    };
  }

  /**
   * Deletes the items of owners whose instances are locked, and remembers the claims on them; answers their tokens. The
   * items are locked first, so that one that is being claimed is met as held, with its token.
   */
  async bury(
    tx: Transaction,
    owners: readonly ItemOwner[],
    now: number,
  ): Promise<readonly string[]> {
    if (owners.length === 0) return [];
    const keys = numbers(owners.map(({ instanceKey }) => instanceKey));
    const executionIds = numbers(owners.map(({ executionId }) => executionId));
    const [, claims] = await Promise.all([
      tx.execute(this.#lockItems, [keys, executionIds]),
      tx.query<Claim>(this.#bury, [keys, executionIds, now]),
    ]);
    return claims.map(toToken);
  }

  /** Those of the tokens whose items were deleted while they held them. */
  async find(
    tx: Transaction,
    lockTokens: readonly string[],
    nowParameter: number | null,
  ): Promise<ReadonlySet<string>> {
    if (lockTokens.length === 0) return new Set();
    const keys = lockTokens.map((token) => parseToken(token).key);
    const claims = await tx.query<Claim>(this.#find, [nowParameter, numbers(keys)]);
    return new Set(claims.map(toToken));
  }

  /** Forgets claims that would have ended by now. */
  async purge(tx: Transaction, now: number): Promise<void> {
    await tx.execute(this.#purge, [now]);
  }
}

function toToken({ itemKey, secret }: Claim): string {
  return formatToken(itemKey, secret);
}
