import pg from 'pg';
import { onTestFinished, vi } from 'vitest';

// More than can run concurrently.
const newest = 500;

/** Watches the driver until the test ends. Returns whether a statement or a connection attempt is pending. */
export function watchDriver(): () => boolean {
  const calls = [vi.spyOn(pg.Client.prototype, 'query'), vi.spyOn(pg.Pool.prototype, 'connect')];
  onTestFinished(() => {
    for (const call of calls) call.mockRestore();
  });
  return () =>
    calls.some(({ mock }) =>
      mock.settledResults.slice(-newest).some(({ type }) => type === 'incomplete'),
    );
}
