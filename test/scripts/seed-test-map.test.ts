import { expect, test } from 'vitest';
import { checkSeedTestMap } from '../../scripts/seed-test-map.ts';

const files: Readonly<Record<string, string>> = {
  'src/a.test.ts': `test('a lock is renewed', () => {});`,
  'docs/decisions/007-flags.md': '# 007',
};

function check(cases: Readonly<Record<string, string>>, ...rows: readonly string[]) {
  return checkSeedTestMap({
    cases: JSON.stringify(cases),
    table: ['| id | case | where |', '| --- | --- | --- |', ...rows].join('\n'),
    readFile: (path) => files[path],
  });
}

const tested = '| S000-P1 | Renewal. | `src/a.test.ts`: a lock is renewed |';

test('a case can point to a test, a decision or a plan', () => {
  const cases = { 'S000-P1': 'Renewal.', 'S000-P2': 'Flag.', 'S004-M1': 'Later.' };
  const result = check(
    cases,
    tested,
    '| S000-P2 | Flag. | [decision 007](decisions/007-flags.md) |',
    '| S004-M1 | Later. | planned: tasks and flows |',
  );
  expect(result).toEqual({ problems: [], tested: 1, decided: 1, planned: 1 });
});

test('a decision can list tests, and a missing one is reported', () => {
  const decided = '[decision 007](decisions/007-flags.md)';
  const row = (test: string): string => `| S000-P1 | Renewal. | ${decided}<br>${test} |`;
  const cases = { 'S000-P1': 'Renewal.' };
  const good = check(cases, row('`src/a.test.ts`: a lock is renewed'));
  expect(good).toEqual({ problems: [], tested: 0, decided: 1, planned: 0 });
  const bad = check(cases, row('`src/a.test.ts`: a lock is lost'));
  expect(bad.problems).toEqual(['S000-P1: src/a.test.ts has no test "a lock is lost"']);
});

test('a case without a row and a row without a case are reported', () => {
  const { problems } = check({ 'S000-P2': 'Flag.' }, tested);
  expect(problems).toEqual([
    'S000-P2 has no row in docs/seed-tests.md',
    'S000-P1 is no case of docs/seed-cases.json',
  ]);
});

test('a repeated id is reported in both files', () => {
  const { problems } = checkSeedTestMap({
    cases: '{ "S000-P1": "Renewal.", "S000-P1": "Renewal." }',
    table: `${tested}\n${tested}`,
    readFile: (path) => files[path],
  });
  expect(problems).toEqual([
    'S000-P1 occurs more than once in docs/seed-cases.json',
    'S000-P1 occurs more than once in docs/seed-tests.md',
  ]);
});

test.each([
  ['`src/a.test.ts`: a lock is lost', 'S000-P1: src/a.test.ts has no test "a lock is lost"'],
  ['`src/b.test.ts`: a lock is renewed', 'S000-P1 names src/b.test.ts, which does not exist'],
  [
    '`src/a.test.ts`: a lock is renewed<br>`src/a.test.ts`: twice',
    'S000-P1: src/a.test.ts has no test "twice"',
  ],
  [
    '[decision 008](decisions/008-none.md)',
    'S000-P1 names a decision that does not exist: [decision 008](decisions/008-none.md)',
  ],
  ['planned: some day', 'S000-P1 is planned for "some day", which is no planned capability'],
  ['later', 'S000-P1 names neither a test, a decision nor a plan: later'],
])('a reference that does not exist is reported: %s', (where, problem) => {
  const { problems } = check({ 'S000-P1': 'Renewal.' }, `| S000-P1 | Renewal. | ${where} |`);
  expect(problems).toEqual([problem]);
});

test('a case whose wording differs between the two files is reported', () => {
  const { problems } = check({ 'S000-P1': 'Renewed.' }, tested);
  expect(problems).toEqual(['S000-P1 is worded otherwise in docs/seed-cases.json']);
});

test('an empty list of cases is reported', () => {
  expect(check({}).problems).toEqual(['no case was read']);
});
