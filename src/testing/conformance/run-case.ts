import type { Clock } from '../../model/clock.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { FakeClock } from '../fake-clock.ts';
import type { ConformanceCase } from './conformance-case.ts';
import { StoreUnderTest } from './store-under-test.ts';

/** Runs one case on an empty store, then closes all providers that were opened for it. */
export async function runCase(
  conformanceCase: ConformanceCase,
  { create, reopen, corrupt }: ProviderUnderTest,
): Promise<void> {
  const clock = new FakeClock();
  const provider = await create({ clock });
  const opened: Provider[] = [provider];
  const store = new StoreUnderTest({
    provider,
    clock,
    corrupt: corrupt && ((target) => corrupt(provider, target)),
    reopen:
      reopen &&
      (async () => {
        const again = await reopen({ clock, first: provider });
        opened.push(again);
        return again;
      }),
  });
  const [outcome] = await Promise.allSettled([conformanceCase.run(store)]);
  const closings = await Promise.allSettled(opened.map((each) => each.close()));
  // The error of the case takes precedence: a store that it broke may also fail to close.
  const failed = [outcome, ...closings].find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
}

/** The rows to corrupt: all rows of one kind of an instance. */
export interface CorruptRows {
  readonly instanceId: string;
  readonly rows: 'events' | 'messages' | 'workItems';
}

/** A case to skip, and the reason. */
export interface SkippedCase {
  readonly case: string;
  readonly reason: string;
}

/** The provider to test. */
export interface ProviderUnderTest {
  /** The title of the suite in reports. */
  readonly name: string;
  /** Opens an empty store that uses the clock. The suite closes it. */
  readonly create: (options: { readonly clock: Clock }) => Promise<Provider>;
  /** Opens the store of `first` again, like another process. The suite closes it. */
  readonly reopen?: (options: {
    readonly clock: Clock;
    readonly first: Provider;
  }) => Promise<Provider>;
  /** Overwrites `data` and `payload` of the rows with bytes that are not valid text. */
  readonly corrupt?: (provider: Provider, target: CorruptRows) => Promise<void>;
  readonly skip?: readonly SkippedCase[];
}
