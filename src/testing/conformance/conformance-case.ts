import type { StoreUnderTest } from './store-under-test.ts';

/** One promise of the contract, shown on a fresh store. */
export interface ConformanceCase {
  /** Named by the clause of the contract that it shows, like `ack/deletes-the-named-messages`. */
  readonly id: string;
  /** A sentence of behaviour. */
  readonly title: string;
  readonly run: (store: StoreUnderTest) => Promise<void>;
}

/** The cases of one capability, in one file. */
export interface Capability {
  readonly title: string;
  readonly cases: readonly ConformanceCase[];
}
