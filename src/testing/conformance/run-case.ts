import type { Provider } from '../../providers/provider.ts';
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
  try {
    await conformanceCase.run(store);
  } finally {
    for (const each of opened.toReversed()) await each.close();
  }
}
