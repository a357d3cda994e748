import type { Perdure } from '../../perdure.ts';
import { reportOnStore, type StoreChoice } from './store-report.ts';

/** An open store, and whether it was created. */
interface OpenedStore {
  readonly perdure: Perdure;
  readonly isNew: boolean;
}

/**
 * Opens a store for a worker or a server. Creates a store that has no tables. An older store is migrated only with
 * `mayMigrate`; otherwise it throws `STORE_TOO_OLD`.
 */
export async function openForWork(choice: StoreChoice, mayMigrate: boolean): Promise<OpenedStore> {
  const { store, schema } = choice;
  const [{ Perdure }, report] = await Promise.all([
    import('../../index.ts'),
    reportOnStore(choice, { brief: true }),
  ]);
  const isNew = report.access.kind === 'missing' || report.schema?.kind === 'new';
  const perdure = await Perdure.open(store, {
    migrate: isNew || mayMigrate,
    ...(schema !== undefined && { schema }),
  });
  return { perdure, isNew };
}
