import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/longest-first.ts';

const source = (path: string): string => new URL(`./src/${path}`, import.meta.url).pathname;

const shared = {
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 60_000,
  // `expect.poll` waits a second otherwise, which a busy machine exceeds.
  expect: { poll: { timeout: 20_000 } },
  globalSetup: 'test/postgres/helpers/global-setup.ts',
} as const;

export default defineConfig({
  resolve: {
    // Tests import the package by its name and run against the sources.
    alias: [
      { find: /^perdure$/, replacement: source('index.ts') },
      { find: /^perdure\/([a-z-]+)$/, replacement: source('$1.ts') },
    ],
  },
  test: {
    // Much of a test is waiting: for a lease, a process, or the database on the other core.
    maxWorkers: Math.max(3, availableParallelism()),
    // Failures are tested on purpose, and the default logger reports them: shown where a test fails.
    silent: 'passed-only',
    sequence: { sequencer: LongestFirst },
    projects: [
      { extends: true, test: { ...shared, name: 'unit', include: ['src/**/*.test.ts'] } },
      { extends: true, test: { ...shared, name: 'e2e', include: ['test/**/*.test.ts'] } },
    ],
  },
});
