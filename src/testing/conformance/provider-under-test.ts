import type { Clock } from '../../model/clock.ts';
import type { Provider } from '../../providers/contract/provider.ts';

/** Stored text that a case wants overwritten with bytes that no one wrote: all rows of that kind of one instance. */
export interface CorruptRows {
  readonly instanceId: string;
  readonly rows: 'events' | 'messages' | 'workItems';
}

/** A case that is left out, and why. */
export interface SkippedCase {
  readonly case: string;
  readonly reason: string;
}

/** What the suite needs to know of the provider that it tests. */
export interface ProviderUnderTest {
  /** The title of the suite in reports. */
  readonly name: string;
  /** Opens a fresh, empty store that is ruled by the clock. The suite closes it. */
  readonly create: (options: { readonly clock: Clock }) => Promise<Provider>;
  /** Opens the store of `first` once more, as another process would. The suite closes it. */
  readonly reopen?: (options: {
    readonly clock: Clock;
    readonly first: Provider;
  }) => Promise<Provider>;
  /** Overwrites `data` and `payload` of the rows with bytes that are not text, below the contract. */
  readonly corrupt?: (provider: Provider, target: CorruptRows) => Promise<void>;
  readonly skip?: readonly SkippedCase[];
}
