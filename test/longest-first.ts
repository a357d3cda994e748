import { BaseSequencer, type TestSpecification } from 'vitest/node';

// A long file that starts last leaves the other cores idle.
const longest = [
  'test/sim/seeds.test.ts',
  'test/conformance/postgres.test.ts',
  'test/crash/postgres-crash-loop.test.ts',
  'test/dashboard/list.test.ts',
  'test/dashboard/connection.test.ts',
  'test/conformance/broken-providers.test.ts',
  'test/conformance/sqlite.test.ts',
  'test/crash/blocked-fleet.test.ts',
  'test/dashboard/every-page.test.ts',
  'test/dashboard/accessibility.test.ts',
  'test/dashboard/roles.test.ts',
  'test/dashboard/instance-actions.test.ts',
  'test/e2e/examples.test.ts',
  'test/crash/crash-loop.test.ts',
  'test/crash/takeover.test.ts',
  'test/postgres/query-plans.test.ts',
  'test/e2e/cancel-examples.test.ts',
  'test/model/races.test.ts',
  'test/jobs/model/job-model.test.ts',
  'test/server/attacks/fuzz.test.ts',
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
