import type { Provider } from '../../providers/contract/provider.ts';
import { FakeClock } from '../fake-clock.ts';
import type { ConformanceCase } from './conformance-case.ts';
import type { ProviderUnderTest } from './provider-under-test.ts';
import { StoreUnderTest } from './store-under-test.ts';

/** Runs one case on a fresh store, and closes whatever was opened for it. */
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
  // What the case found comes first: a store that it broke may also fail to close.
  const failed = [outcome, ...closings].find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
}
