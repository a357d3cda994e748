import './require-node.ts';

// The PostgreSQL store, for options beyond those of `Perdure.open`
export { openPostgres } from './providers/postgres/provider.ts';
export { migratePostgres } from './providers/postgres/migrations/migrate.ts';
export type { PostgresOptions } from './providers/postgres/driver/options.ts';
export type { PostgresTransaction } from './providers/postgres/driver/guarded-client.ts';
