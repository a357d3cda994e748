import { BaseSequencer, type TestSpecification } from 'vitest/node';

// A long file that starts last leaves the other cores idle.
const longest = [
  'test/conformance/postgres.test.ts',
  'test/dashboard/list.test.ts',
  'test/sim/seeds.test.ts',
  'test/dashboard/accessibility.test.ts',
  'test/dashboard/every-page.test.ts',
  'test/crash/postgres-crash-loop.test.ts',
  'test/e2e/examples.test.ts',
  'test/model/races.test.ts',
  'test/e2e/cancel-examples.test.ts',
  'test/crash/blocked-fleet.test.ts',
  'test/conformance/broken-providers.test.ts',
  'test/crash/crash-loop.test.ts',
  'test/dashboard/live.test.ts',
  'test/dashboard/roles.test.ts',
  'test/dashboard/connection.test.ts',
  'test/model/crashes.test.ts',
  'test/dashboard/instance-actions.test.ts',
  'test/postgres/query-plans.test.ts',
  'test/crash/operators-crash.test.ts',
  'test/crash/transfers-crash.test.ts',
  'test/postgres/fences/claimed-turns.test.ts',
  'test/engine/cancellation/cancel-bad-input.test.ts',
  'test/conformance/sqlite.test.ts',
  'test/dashboard/bulk.test.ts',
  'test/streams/lost-claims.test.ts',
  'test/sim/planted-bugs.test.ts',
  'test/dashboard/seed/seed-store.test.ts',
  'test/model/takeovers.test.ts',
  'test/postgres/outages.test.ts',
  'test/jobs/model/job-model.test.ts',
  'test/management/force-delete.test.ts',
  'test/dashboard/keyboard-paths.test.ts',
  'test/crash/takeover.test.ts',
  'test/engine/starting.test.ts',
];

/** Begins with the test files that take longest. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const place = ({ moduleId }: TestSpecification): number => {
      const index = longest.findIndex((path) => moduleId.endsWith(path));
      return index === -1 ? longest.length : index;
    };
    return sorted.toSorted((a, b) => place(a) - place(b));
  }
}
