import type { OpenOptions, Provider } from 'perdure';
import { openPostgres } from 'perdure/postgres';
import { openSqlite } from 'perdure/sqlite';
import type { Benchmark } from './benchmark.ts';
import type { ProviderName } from './stores.ts';

/** The provider of a store. */
export function providerOf(store: string): ProviderName {
  return store.startsWith('postgres') ? 'postgres' : 'sqlite';
}

/** Opens a store for a case that calls the provider directly. */
export async function openProvider(store: string): Promise<Provider> {
  return providerOf(store) === 'postgres'
    ? await openPostgres({ url: store })
    : await openSqlite({ path: store });
}

/** A case with one implementation per provider. */
export function onEach(benchmarks: Readonly<Record<ProviderName, Benchmark>>): Benchmark {
  return (setup) => benchmarks[providerOf(setup.store)](setup);
}

/** Options to open a store for work whose commits are not measured. */
export function unsynced(store: string): OpenOptions {
  return providerOf(store) === 'sqlite' ? { synchronous: 'normal' } : {};
}
