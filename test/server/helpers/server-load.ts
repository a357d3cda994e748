import { vi, onTestFinished } from 'vitest';
import type { TestServer } from './server-fixture.ts';

/** Poll timeout for a machine that also runs other tests. */
export const longPoll = { timeout: 30_000 };

/** Reads one gauge of the server. */
export async function readGauge({ ask }: TestServer, what: string): Promise<number> {
  const figures = await ask('prometheus', {});
  return Number(
    new RegExp(`perdure_server_under_way\\{what="${what}"\\} (\\d+)`).exec(figures)?.[1],
  );
}

/** Blocks every `listAudit` request until `release()`. */
export function holdAuditRequests({ perdure }: TestServer): { readonly release: () => void } {
  const { promise, resolve } = Promise.withResolvers<{ items: [] }>();
  const spy = vi.spyOn(perdure.client, 'listAudit').mockReturnValue(promise);
  const release = (): void => resolve({ items: [] });
  onTestFinished(() => {
    release();
    spy.mockRestore();
  });
  return { release };
}
