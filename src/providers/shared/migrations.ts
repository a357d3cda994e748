import { createHash } from 'node:crypto';
import { ProviderError } from '../../model/failures/errors.ts';

/** One step of a schema. A released migration never changes: every store records its checksum. */
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

/** Creates the error of a store that must not be opened. */
export function openError(
  code: 'PROVIDER' | 'STORE_TOO_NEW' | 'STORE_TOO_OLD' | 'STORE_INCOMPATIBLE' | 'STORE_DAMAGED',
  message: string,
): ProviderError {
  return new ProviderError({ operation: 'open', message, retryable: false, code });
}
