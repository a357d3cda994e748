import { setTimeout as delay } from 'node:timers/promises';
import { ProviderError } from '../../../src/model/failures/errors.ts';
import { isPostgresUrl } from '../../../src/providers/postgres/driver/postgres-url.ts';
import { openPostgres } from '../../../src/providers/postgres/provider.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';

/** Opens the store of a loop by path or URL. Waits for a server that is unavailable, as a supervisor would. */
export async function openStore(store: string): Promise<Provider> {
  if (!isPostgresUrl(store)) return openSqlite({ path: store });
  for (;;) {
    try {
      return await openPostgres({ url: store });
    } catch (error) {
      if (!(error instanceof ProviderError && error.retryable)) throw error;
      await delay(50);
    }
  }
}
