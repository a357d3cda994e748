import type { Goal } from './goal.ts';
import { postgresGoals } from './postgres-goals.ts';
import { sqliteGoals } from './sqlite-goals.ts';
import type { ProviderName } from './stores.ts';

/** The goals of each provider. */
export const goals: Readonly<Record<ProviderName, readonly Goal[]>> = {
  sqlite: sqliteGoals,
  postgres: postgresGoals,
};
