import { createPostgresStores } from './postgres-stores.ts';
import { createSqliteStores } from './sqlite-stores.ts';

/** The source of stores for a run: each case gets a fresh one, which is removed afterwards. */
export interface Stores {
  /** The versions of the database. */
  readonly versions: Readonly<Record<string, string>>;
  /** Creates an empty store, or a copy of a closed one. Returns its path or URL. */
  make(name: string, template?: string): Promise<string>;
  remove(store: string): Promise<void>;
  /** Removes all stores. */
  close(): Promise<void>;
}

export const providerNames = ['sqlite', 'postgres'] as const;

export type ProviderName = (typeof providerNames)[number];

export function isProviderName(name: string): name is ProviderName {
  return providerNames.some((known) => known === name);
}

/** Opens the store source of a provider. */
export async function openStores(provider: ProviderName): Promise<Stores> {
  return provider === 'sqlite' ? createSqliteStores() : await createPostgresStores();
}
