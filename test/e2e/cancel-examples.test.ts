import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { createDatabase } from '../postgres/helpers/server.ts';
import type { CanceledAtWait } from './cancel-at-each-wait.ts';
import { root, runProgram, withoutLogLines } from './run-program.ts';

/** Waits at which a cancel is too late to change the outcome, with the cause. */
const tooLate: Readonly<Record<string, string>> = {
  'child-orchestrations order 2': 'the start that it waits for is confirmed by the same commit',
  'race fetchFile 2': 'the code has returned; the instance waits for the losers to stop',
  'timeout-with-cleanup render 3': 'the outcome is decided; the code cleans up in a shield',
  'timeout-with-cleanup render 4': 'the outcome is decided; the code cleans up in a shield',
};

/** Waits that must be found, so that the check cannot pass without any. */
const expected: Readonly<Record<string, readonly string[]>> = {
  'timers-and-events': ['purchase 1', 'purchase 2', 'purchase 3'],
  'fan-out-fan-in': ['countAll 1'],
  order: ['order 1', 'order 2'],
  saga: ['trip 1', 'trip 2', 'trip 3'],
  flow: ['order 1', 'order 2'],
  'start-in-a-transaction': ['order 1'],
};

// The first run finds the waits, the others cancel; each needs a database of its own.
const databasesEach = 3;

const examples = globSync('examples/*.ts', { cwd: root })
  .map((file) => file.slice('examples/'.length, -'.ts'.length))
  .sort();

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-cancel-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it.each(examples)('example %s ends canceled when canceled at any of its waits', async (example) => {
  const file = join(root, 'examples', `${example}.ts`);
  const needsPostgres = readFileSync(file, 'utf8').includes(`from 'pg'`);
  const stores = needsPostgres ? await databases() : [];
  const { stdout, stderr } = await runProgram('test/e2e/cancel-at-each-wait.ts', {
    cwd: folder,
    args: [file, ...stores],
  });
  expect(withoutLogLines(stderr)).toBe('');
  const ends = JSON.parse(stdout) as readonly CanceledAtWait[];
  const inTime = ends.filter(
    ({ orchestration, wait }) => tooLate[`${example} ${orchestration} ${wait}`] === undefined,
  );
  expect(inTime.filter(({ status }) => status !== 'canceled')).toEqual([]);
  const waits = ends.map(({ orchestration, wait }) => `${orchestration} ${wait}`);
  expect(waits).toEqual(expect.arrayContaining([...(expected[example] ?? [])]));
});

async function databases(): Promise<readonly string[]> {
  const urls: string[] = [];
  for (let count = 0; count < databasesEach; count += 1) {
    const database = await createDatabase();
    onTestFinished(() => database.drop());
    urls.push(database.url);
  }
  return urls;
}
