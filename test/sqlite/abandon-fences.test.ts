/** Removes the conditions of the batch path of abandonJobs() one by one: a case must fail without each. */
import assert from 'node:assert/strict';
import Database from 'better-sqlite3';
import { afterAll, expect, it, onTestFinished, vi } from 'vitest';
import type { ConformanceCase } from '../../src/testing/conformance/conformance-case.ts';
import { conformanceCases } from '../../src/testing/conformance/conformance-cases.ts';
import { runCase } from '../../src/testing/conformance/run-case.ts';
import { SqliteFiles } from '../conformance/sqlite-files.ts';
import { lapsedJob } from '../postgres/fences/abandon-fences.ts';

const files = new SqliteFiles();
afterAll(() => files.remove());

const run = (each: ConformanceCase): Promise<void> =>
  runCase(each, { name: 'SQLite', create: files.create });

function findCase(named: string | ConformanceCase): ConformanceCase {
  const found = typeof named === 'string' ? conformanceCases.find(({ id }) => id === named) : named;
  return found ?? assert.fail('no such case');
}

/** Removes a condition from the job selection of every store that is opened until the test ends. */
function removeFromSelection(find: RegExp): void {
  const prepare = Reflect.get(Database.prototype, 'prepare') as (
    this: Database.Database,
    sql: string,
  ) => Database.Statement;
  const spy = vi.spyOn(Database.prototype, 'prepare').mockImplementation(function (
    this: Database.Database,
    sql: string,
  ) {
    if (!sql.includes('FROM json_each(:wanted)')) return Reflect.apply(prepare, this, [sql]);
    expect(sql).toMatch(find);
    return Reflect.apply(prepare, this, [sql.replaceAll(new RegExp(find, 'g'), 'TRUE')]);
  });
  onTestFinished(() => spy.mockRestore());
}

it.each([
  ['the incarnation', /incarnation = value ->> 1/, 'job/is-meant-by-its-whole-key'],
  [
    'the session',
    /\+session_key = \(SELECT session_key FROM sessions WHERE session_id = value ->> 2\)/,
    'job/is-meant-by-its-whole-key',
  ],
  ['a live lease', /locked_until > :now/, lapsedJob],
  ['the point of no return', /point_of_no_return = 0/, 'job/are-abandoned-each-for-itself'],
  // Every stop writes all three, so each alone is sufficient.
  [
    'the absence of a cancel request',
    /\+status = 'running'|\+abandoned_at IS NULL|item\.cancel_requested_at IS NULL/,
    'job/can-be-abandoned-twice',
  ],
] as const)(
  'a conformance case fails when the job selection omits %s',
  async (_, find, rejectedBy) => {
    await run(findCase(rejectedBy));
    removeFromSelection(find);
    const rejection: unknown = await run(findCase(rejectedBy)).catch((error: unknown) => error);
    // Either an assertion of the case, or the store's check of the number of changed rows.
    expect(rejection).toBeInstanceOf(Error);
    expect(String(rejection)).toMatch(/AssertionError|Expected to change 1 jobs, but changed/);
  },
);
