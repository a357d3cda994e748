import type { StoreUnderTest } from './store-under-test.ts';

/** A test of one clause of the contract, on an empty store. */
export interface ConformanceCase {
  /** The id that the clause refers to, such as `ack/deletes-the-named-messages`. */
  readonly id: string;
  /** The expected behavior. */
  readonly title: string;
  readonly run: (store: StoreUnderTest) => Promise<void>;
}

/** The cases of one capability. */
export interface Capability {
  readonly title: string;
  readonly cases: readonly ConformanceCase[];
}
