import { text, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';

/** Reads who is whose child. */
export class InstanceFamily {
  readonly #children: Statement;
  readonly #parent: Statement;

  constructor(schema: string) {
    const table = `${schema}.instances`;
    this.#children = {
      name: 'perdure_select_child_ids',
      text: `SELECT (place - 1)::int AS index, child.instance_id AS "instanceId"
        FROM unnest($1::text[]) WITH ORDINALITY AS parent (instance_id, place) CROSS JOIN LATERAL (
          SELECT instance_key, instance_id FROM ${table} AS one
          WHERE one.parent_instance_id = parent.instance_id OFFSET 0) AS child
        ORDER BY place, child.instance_key`,
    };
    this.#parent = {
      name: 'perdure_select_parent_id',
      text: `SELECT parent_instance_id AS "parentId" FROM ${table} WHERE instance_id = $1`,
    };
  }

  async childrenOf(
    tx: Transaction,
    instanceIds: readonly string[],
  ): Promise<readonly (readonly string[])[]> {
    const children: string[][] = instanceIds.map(() => []);
    if (instanceIds.length === 0) return children;
    const rows = await tx.query<{ index: number; instanceId: string }>(this.#children, [
      texts(instanceIds),
    ]);
    for (const { index, instanceId } of rows) children[index]?.push(instanceId);
    return children;
  }

  /** `null` for a root, `undefined` for an unknown id. */
  async parentOf(tx: Transaction, instanceId: string): Promise<string | null | undefined> {
    const [row] = await tx.query<{ parentId: string | null }>(this.#parent, [text(instanceId)]);
    return row?.parentId;
  }
}
