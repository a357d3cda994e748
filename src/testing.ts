import './require-node.ts';

// Test environment that skips time
export { createTestEnvironment } from './testing/test-environment.ts';
export type { TestEnvironment, TestEnvironmentOptions } from './testing/test-environment.ts';
export type { EveryPlaceOptions, PlaceRun } from './testing/every-place.ts';
export { FakeClock } from './testing/fake-clock.ts';
export type { FakeClockOptions } from './testing/fake-clock.ts';

// Worker options for tests
export { testOptions } from './runtime/test-options.ts';
export type { TestOptions } from './runtime/test-options.ts';

// Replay check of recorded histories
export { checkReplay } from './testing/replay-test.ts';
export type { ReplayCheck, ReplayCheckResult } from './testing/replay-test.ts';

// Conformance suite for providers
export { describeProvider } from './testing/conformance/describe-provider.ts';
export type { TestRunner } from './testing/conformance/describe-provider.ts';
export { conformanceCases } from './testing/conformance/conformance-cases.ts';
export type { ConformanceCase } from './testing/conformance/conformance-case.ts';
export { runCase } from './testing/conformance/run-case.ts';
export type {
  CorruptRows,
  ProviderUnderTest,
  SkippedCase,
} from './testing/conformance/run-case.ts';
