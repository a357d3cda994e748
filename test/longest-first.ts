import { BaseSequencer, type TestSpecification } from 'vitest/node';

// Those that take minutes, mostly by waiting: begun last, they would be waited for by idle cores.
const longest = [
  'test/crash/postgres-crash-loop.test.ts',
  'test/conformance/postgres.test.ts',
  'test/crash/crash-loop.test.ts',
  'test/e2e/examples.test.ts',
  'test/conformance/sqlite.test.ts',
  'test/postgres/query-plans.test.ts',
  'test/jobs/model/job-model.test.ts',
  'test/model/races.test.ts',
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
