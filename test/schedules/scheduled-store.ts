import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import { describe, onTestFinished } from 'vitest';
import { Perdure } from '../../src/index.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { engineStores, type EngineStore, type StoreKind } from '../engine/engine-store.ts';
import { watchDriver } from '../postgres/helpers/driver-activity.ts';

/** A store with a fake clock. It can be opened several times, as by several processes. */
export interface ScheduledStore {
  readonly clock: FakeClock;
  readonly open: () => Promise<{ readonly perdure: Perdure; readonly provider: Provider }>;
}

// A Friday at noon.
const startAt = Date.UTC(2030, 1, 1, 12);

/** Registers a suite once for SQLite and once for PostgreSQL. */
export function describeScheduled(
  title: string,
  suite: (scheduledStore: () => Promise<ScheduledStore>) => void,
): void {
  for (const kind of ['SQLite', 'PostgreSQL'] as const) {
    describe(`${title} (${kind})`, () => {
      const newStore = engineStores(kind);
      suite(async () => scheduledStore(kind, await newStore()));
    });
  }
}

function scheduledStore(kind: StoreKind, store: EngineStore): ScheduledStore {
  onTestFinished(() => store.remove());
  const isBusy = kind === 'PostgreSQL' ? watchDriver() : () => false;
  const clock = new FakeClock({ startAt, settle: () => settle(isBusy) });
  return {
    clock,
    open: async () => {
      const provider = await store.open({ clock });
      // A short interval would fire thousands of polls when the clock advances by hours.
      const perdure = await Perdure.open(provider, { clock, pollInterval: '10m' });
      onTestFinished(() => perdure.close());
      return { perdure, provider };
    },
  };
}

/** Runs the event loop until no query is in flight. */
async function settle(isBusy: () => boolean): Promise<void> {
  for (let round = 0; round < 20; round += 1) {
    await setImmediate();
    while (isBusy()) {
      await delay(1);
      round = 0;
    }
  }
}

/** Returns the time `count` minutes after the start of the store's clock. */
export function minute(count: number): number {
  return startAt + count * 60_000;
}
