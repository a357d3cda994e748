import {
  applyTags,
  decodeTags,
  encodeTags,
  type RecordedTagChanges,
  type Tags,
} from '../../../model/values/tags.ts';
import { keys, prepare, rowIdOf, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

interface TagRow {
  readonly instanceKey: number;
  readonly name: string;
  readonly value: string;
}

interface TagsRow {
  readonly instanceKey: number;
  readonly tags: string | null;
}

/** The tags of instances: the column `tags`, and its index `instance_tags`. */
export class InstanceTags {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Writes the tags of new instances. */
  async add(
    tx: Transaction,
    instances: readonly { readonly instanceKey: number; readonly tags?: Tags | undefined }[],
  ): Promise<void> {
    const tagged = instances.flatMap(({ instanceKey, tags }) =>
      tags === undefined ? [] : [{ instanceKey, tags }],
    );
    if (tagged.length === 0) return;
    const rows = tagged.map(({ instanceKey, tags }) => ({ instanceKey, tags: encodeTags(tags) }));
    await Promise.all([
      tx.execute(...this.#sql.update({ rows })),
      tx.execute(
        ...this.#sql.insert({ entries: tagged.flatMap((one) => entriesOf(one, one.tags)) }),
      ),
    ]);
  }

  /** Replaces the tags of an instance. */
  async replace(
    tx: Transaction,
    { instanceKey, tags }: { readonly instanceKey: number; readonly tags: Tags | undefined },
  ): Promise<void> {
    await Promise.all([
      this.deleteOfInstances(tx, [instanceKey]),
      tx.execute(...this.#sql.update({ rows: [{ instanceKey, tags: null }] })),
      this.add(tx, [{ instanceKey, tags }]),
    ]);
  }

  /** Merges changes into the tags of locked instances. */
  async merge(
    tx: Transaction,
    changes: readonly { readonly instanceKey: number; readonly tags: RecordedTagChanges }[],
  ): Promise<void> {
    if (changes.length === 0) return;
    const stored = await tx.query<TagsRow>(
      ...this.#sql.select({ keys: changes.map(({ instanceKey }) => instanceKey) }),
    );
    const byKey = new Map(stored.map((row) => [row.instanceKey, decodeTags(row.tags)]));
    const rows: TagsRow[] = [];
    const added: TagRow[] = [];
    const removed: TagRow[] = [];
    for (const one of changes) {
      const before = byKey.get(one.instanceKey) ?? {};
      const after = applyTags(before, one.tags);
      rows.push({ instanceKey: one.instanceKey, tags: encodeTags(after) });
      added.push(...entriesOf(one, after).filter(({ name, value }) => before[name] !== value));
      removed.push(...entriesOf(one, before).filter(({ name, value }) => after[name] !== value));
    }
    await Promise.all([
      tx.execute(...this.#sql.update({ rows })),
      tx.execute(...this.#sql.delete({ entries: removed })),
      tx.execute(...this.#sql.insert({ entries: added })),
    ]);
  }

  /** Deletes the index entries of instances. Send it before their rows are deleted. */
  async deleteOfInstances(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    await tx.execute(...this.#sql.deleteOfInstances({ keys: instanceKeys }));
  }
}

function entriesOf({ instanceKey }: { readonly instanceKey: number }, tags: Tags) {
  return Object.entries(tags).map(([name, value]): TagRow => ({ instanceKey, name, value }));
}

function statements(schema: string) {
  const table = `${schema}.instances`;
  const entries = rowsOf<TagRow>()({ name: 'text', value: 'text', instance_key: 'bigint' });
  const isGone = rowIdOf(
    `${schema}.instance_tags`,
    'one.name = gone.name AND one.value = gone.value AND one.instance_key = gone.instance_key',
  );
  return {
    select: prepare(
      'perdure_select_tags',
      { keys: keys() },
      ({ keys }) =>
        `SELECT instance_key AS "instanceKey", tags FROM ${table} WHERE instance_key = ANY (${keys})`,
    ),
    update: prepare(
      'perdure_update_tags',
      { rows: rowsOf<TagsRow>()({ instance_key: 'bigint', tags: 'text' }) },
      ({ rows }) => `UPDATE ${table} AS instance SET tags = tagged.tags FROM ${rows.as('tagged')}
        ${rowIdOf(table, 'one.instance_key = tagged.instance_key')}
        WHERE instance.ctid = found.row_id`,
    ),
    insert: prepare(
      'perdure_insert_tags',
      { entries },
      ({ entries }) => `INSERT INTO ${schema}.instance_tags (${entries.names})
        SELECT ${entries.names} FROM ${entries.as('tag')} ON CONFLICT DO NOTHING`,
    ),
    delete: prepare(
      'perdure_delete_tags',
      { entries },
      ({ entries }) => `DELETE FROM ${schema}.instance_tags
        WHERE ctid = ANY (ARRAY(SELECT row_id FROM ${entries.as('gone')} ${isGone}))`,
    ),
    // The column names the entries, so that the index needs no second index by instance.
    deleteOfInstances: prepare(
      'perdure_delete_tags_of_instances',
      { keys: keys() },
      ({
        keys,
      }) => `DELETE FROM ${schema}.instance_tags WHERE ctid = ANY (ARRAY(SELECT row_id FROM (
          SELECT instance_key, entry.key AS name, entry.value FROM ${table}
          CROSS JOIN LATERAL json_each_text(tags::json) AS entry
          WHERE instance_key = ANY (${keys}) AND tags IS NOT NULL) AS gone ${isGone}))`,
    ),
  };
}
