import type { StoreReport } from '../../providers/shared/store-report.ts';
import type { TargetChoice } from '../target/choose-target.ts';

/** A chosen store. */
export type StoreChoice = Extract<TargetChoice, { readonly kind: 'store' }>;

/** Reports on a store without opening, creating or migrating it. Loads only its driver. */
export async function reportOnStore(
  choice: StoreChoice,
  options: { readonly brief?: boolean } = {},
): Promise<StoreReport> {
  const { store, schema, isPostgres } = choice;
  if (isPostgres) {
    const { reportOnPostgres } = await import('../../providers/postgres/report.ts');
    return reportOnPostgres({ url: store, ...(schema !== undefined && { schema }) }, options);
  }
  const { reportOnSqlite } = await import('../../providers/sqlite/report.ts');
  return reportOnSqlite({ path: store, ...options });
}
