import { createHash } from 'node:crypto';
import { isPerdureError, ProviderError } from '../../model/failures/errors.ts';

/**
 * One step of a schema. A released migration never changes: every store records its checksum. Before the first release
 * tables are changed in place, because SQLite parses the whole schema for each ALTER TABLE, which takes a millisecond.
 */
export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
}

/** A migration as a store has recorded it. */
export interface AppliedMigration {
  readonly number: number;
  readonly name: string;
  readonly checksum: string;
}

/** The checksum recorded for a migration. */
export function checksum({ sql }: Migration): string {
  return createHash('sha256').update(sql).digest('hex');
}

/** Returns the migrations to apply. Throws if the applied ones are not a prefix of the known ones. */
export function missingMigrations(
  applied: readonly AppliedMigration[],
  known: readonly Migration[],
): readonly Migration[] {
  const newest = applied.at(-1)?.number ?? 0;
  if (newest > known.length) {
    throw openError(
      'STORE_TOO_NEW',
      `The store is at migration ${newest}, but this version of Perdure supports ${known.length}. Upgrade Perdure to open it.`,
    );
  }
  for (const [index, row] of applied.entries()) {
    const migration = known[index];
    if (migration?.number !== row.number) {
      throw openError(
        'STORE_DAMAGED',
        `The store recorded migration ${row.number} (${row.name}) instead of ${index + 1}. Restore the store from a backup.`,
      );
    }
    if (checksum(migration) !== row.checksum) {
      throw openError(
        'STORE_INCOMPATIBLE',
        `Migration ${row.number} (${row.name}) of the store differs from the one in this version of Perdure. Open the store with the version that wrote it.`,
      );
    }
  }
  return known.slice(applied.length);
}

/** How the schema of a store relates to the one of this version. */
export interface SchemaState {
  /** `new`: the store has no tables. `older`: migrations are pending. All others but `current` cannot be opened. */
  readonly kind: 'new' | 'current' | 'older' | 'newer' | 'changed' | 'damaged';
  /** The number of migrations that the store has recorded. */
  readonly applied: number;
  readonly pending: readonly Pick<Migration, 'number' | 'name'>[];
  /** Why the store cannot be opened, and the fix. */
  readonly problem?: string;
}

const schemaKinds = {
  STORE_TOO_NEW: 'newer',
  STORE_INCOMPATIBLE: 'changed',
  STORE_DAMAGED: 'damaged',
} as const;

/** Compares the applied migrations with the known ones. Changes nothing. */
export function toSchemaState(
  readApplied: () => readonly AppliedMigration[],
  known: readonly Migration[],
): SchemaState {
  let applied = 0;
  try {
    const rows = readApplied();
    applied = rows.length;
    const pending = missingMigrations(rows, known).map(({ number, name }) => ({ number, name }));
    const kind = applied === 0 ? 'new' : pending.length === 0 ? 'current' : 'older';
    return { kind, applied, pending };
  } catch (error) {
    for (const code of ['STORE_TOO_NEW', 'STORE_INCOMPATIBLE', 'STORE_DAMAGED'] as const) {
      if (!isPerdureError(error, code)) continue;
      return { kind: schemaKinds[code], applied, pending: [], problem: error.message };
    }
    throw error;
  }
}

/** Creates the error of a store that must not be opened. */
export function openError(
  code: 'PROVIDER' | 'STORE_TOO_NEW' | 'STORE_TOO_OLD' | 'STORE_INCOMPATIBLE' | 'STORE_DAMAGED',
  message: string,
): ProviderError {
  return new ProviderError({ operation: 'open', message, retryable: false, code });
}
