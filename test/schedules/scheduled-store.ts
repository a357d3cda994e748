import { setImmediate, setTimeout as delay } from 'node:timers/promises';
import { describe, onTestFinished } from 'vitest';
import { Perdure } from '../../src/index.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { engineStores, type EngineStore, type StoreKind } from '../engine/engine-store.ts';
import { watchDriver } from '../postgres/helpers/driver-activity.ts';

/** A store whose clock the test moves; it may be opened several times, as by several processes. */
export interface ScheduledStore {
  readonly clock: FakeClock;
  readonly open: () => Promise<{ readonly perdure: Perdure; readonly provider: Provider }>;
}

// A Friday at noon.
const startAt = Date.UTC(2030, 1, 1, 12);

/** Registers a suite once per kind of store. */
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
      // Polls would only fire thousands of alarms while the clock is moved by hours.
      const perdure = await Perdure.open(provider, { clock, pollInterval: '10m' });
      onTestFinished(() => perdure.close());
      return { perdure, provider };
    },
  };
}

/** Lets woken code proceed until nothing of it is on its way to a server or back. */
async function settle(isBusy: () => boolean): Promise<void> {
  for (let round = 0; round < 20; round += 1) {
    await setImmediate();
    while (isBusy()) {
      await delay(1);
      round = 0;
    }
  }
}

/** The moment so many minutes after the store's clock began. */
export function minute(count: number): number {
  return startAt + count * 60_000;
}
