import { createPostgresStores } from './postgres-stores.ts';
import { createSqliteStores } from './sqlite-stores.ts';

/** Where the stores of a run come from: each case gets a fresh one, which is removed after it. */
export interface Stores {
  /** The versions that the figures belong to. */
  readonly versions: Readonly<Record<string, string>>;
  /** Makes an empty store, or a copy of one that nobody has open; answers its path or URL. */
  make(name: string, template?: string): Promise<string>;
  remove(store: string): Promise<void>;
  /** Removes everything that is left. */
  close(): Promise<void>;
}

export const providerNames = ['sqlite', 'postgres'] as const;

export type ProviderName = (typeof providerNames)[number];

export function isProviderName(name: string): name is ProviderName {
  return providerNames.some((known) => known === name);
}

/** Opens the source of stores for a provider. */
export async function openStores(provider: ProviderName): Promise<Stores> {
  return provider === 'sqlite' ? createSqliteStores() : await createPostgresStores();
}
