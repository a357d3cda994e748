import './require-node.ts';

// Tests of orchestrations, with time that is skipped
export { createTestEnvironment } from './testing/test-environment.ts';
export type { TestEnvironment, TestEnvironmentOptions } from './testing/test-environment.ts';
export { FakeClock } from './testing/fake-clock.ts';
export type { FakeClockOptions } from './testing/fake-clock.ts';

// Worker options for tests
export { testOptions } from './runtime/test-options.ts';
export type { TestOptions } from './runtime/test-options.ts';

// Whether today's code agrees with a recorded history
export { checkReplay } from './testing/replay-test.ts';
export type { ReplayCheck, ReplayCheckResult } from './testing/replay-test.ts';

// The conformance suite for stores
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
