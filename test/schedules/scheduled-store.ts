import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { Perdure } from '../../src/index.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';

/** A store whose clock the test moves; it may be opened several times, as by several processes. */
export interface ScheduledStore {
  readonly clock: FakeClock;
  readonly open: () => Promise<{ readonly perdure: Perdure; readonly provider: Provider }>;
}

// A Friday at noon.
const startAt = Date.UTC(2030, 1, 1, 12);

export async function scheduledStore(): Promise<ScheduledStore> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-schedules-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const clock = new FakeClock({ startAt });
  return {
    clock,
    open: async () => {
      const provider = await openSqlite({ path: join(folder, 'schedules.db'), clock });
      // Polls would only fire thousands of alarms while the clock is moved by hours.
      const perdure = await Perdure.open(provider, { clock, pollInterval: '10m' });
      onTestFinished(() => perdure.close());
      return { perdure, provider };
    },
  };
}

/** The moment so many minutes after the store's clock began. */
export function minute(count: number): number {
  return startAt + count * 60_000;
}
