import { onTestFinished } from 'vitest';
import { openPostgres } from '../../../src/providers/postgres/provider.ts';
import type { PostgresOptions } from '../../../src/providers/postgres/driver/options.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { createMigratedDatabase } from './migrated-database.ts';

/** Creates a database for one test. Its providers are closed and it is dropped when the test ends. */
export async function temporaryStore(): Promise<{
  readonly url: string;
  readonly open: (options?: Partial<PostgresOptions>) => Promise<Provider>;
}> {
  const database = await createMigratedDatabase();
  const opened: Provider[] = [];
  onTestFinished(async () => {
    for (const provider of opened) await provider.close();
    await database.drop();
  });
  return {
    url: database.url,
    open: async (options = {}) => {
      const provider = await openPostgres({ url: database.url, ...options });
      opened.push(provider);
      return provider;
    },
  };
}
