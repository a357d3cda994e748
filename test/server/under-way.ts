import { vi, onTestFinished } from 'vitest';
import type { TestServer } from './server-fixture.ts';

/** For what comes soon, on a machine that may be busy with other tests. */
export const patient = { timeout: 30_000 };

/** Reads one of the gauges that the server has of itself. */
export async function underWay({ ask }: TestServer, what: string): Promise<number> {
  const figures = await ask('prometheus', {});
  return Number(
    new RegExp(`perdure_server_under_way\\{what="${what}"\\} (\\d+)`).exec(figures)?.[1],
  );
}

/** Makes every request for the audit hold its place until it is released. */
export function holdPlaces({ perdure }: TestServer): { readonly release: () => void } {
  const { promise, resolve } = Promise.withResolvers<{ items: [] }>();
  const spy = vi.spyOn(perdure.client, 'listAudit').mockReturnValue(promise);
  const release = (): void => resolve({ items: [] });
  onTestFinished(() => {
    release();
    spy.mockRestore();
  });
  return { release };
}
