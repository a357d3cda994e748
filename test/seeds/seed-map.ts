/** Compares the table of docs/seed-tests.md with the cases, tests and decisions. */

/** Capabilities that a case may be planned for. */
const PLANNED = ['tasks and flows'] as const;

export interface SeedTestMap {
  /** The text of docs/seed-cases.json: the wording of each case by id. */
  readonly cases: string;
  /** The text of docs/seed-tests.md. */
  readonly table: string;
  /** Returns the text of a file of the repository; `undefined` if it does not exist. */
  readonly readFile: (path: string) => string | undefined;
}

interface Row {
  readonly id: string;
  readonly wording: string;
  readonly where: string;
}

/** Returns the problems of the map, and the number of cases per kind. */
export function checkSeedTestMap(map: SeedTestMap): {
  readonly problems: readonly string[];
  readonly tested: number;
  readonly decided: number;
  readonly planned: number;
} {
  const cases = JSON.parse(map.cases) as Readonly<Record<string, string>>;
  const rows = readRows(map.table);
  const kinds = rows.map(({ where }) => kindOf(where));
  const count = (kind: string): number => kinds.filter((each) => each === kind).length;
  return {
    problems: [
      ...duplicates(listedIds(map.cases), 'docs/seed-cases.json'),
      ...duplicates(
        rows.map(({ id }) => id),
        'docs/seed-tests.md',
      ),
      ...differences(cases, rows),
      ...rows.flatMap((row) => placeProblems(row, map.readFile)),
    ],
    tested: count('test'),
    decided: count('decision'),
    planned: count('planned'),
  };
}

function readRows(table: string): Row[] {
  return table.split('\n').flatMap((line) => {
    const [, id, wording, where] =
      /^\|\s*(S\d{3}-\w+)\s*\|\s*(.*?)\s*\|\s*(.*?)\s*\|$/.exec(line) ?? [];
    return id === undefined ? [] : [{ id, wording: wording ?? '', where: where ?? '' }];
  });
}

// JSON.parse silently keeps the last of two equal keys.
function listedIds(text: string): string[] {
  return [...text.matchAll(/"(S\d{3}-\w+)":/g)].map(([, id]) => id ?? '');
}

function duplicates(ids: readonly string[], file: string): string[] {
  const repeated = new Set(ids.filter((id, index) => ids.indexOf(id) !== index));
  return [...repeated].map((id) => `${id} occurs more than once in ${file}`);
}

function differences(cases: Readonly<Record<string, string>>, rows: readonly Row[]): string[] {
  const mapped = new Set(rows.map(({ id }) => id));
  const missing = Object.keys(cases).filter((id) => !mapped.has(id));
  return [
    ...(Object.keys(cases).length === 0 ? ['no case was read'] : []),
    ...missing.map((id) => `${id} has no row in docs/seed-tests.md`),
    ...rows.flatMap(({ id, wording }) => {
      const expected = cases[id];
      if (expected === undefined) return [`${id} is no case of docs/seed-cases.json`];
      return wording === expected ? [] : [`${id} is worded otherwise in docs/seed-cases.json`];
    }),
  ];
}

function kindOf(where: string): 'test' | 'decision' | 'planned' {
  if (where.startsWith('planned:')) return 'planned';
  return where.startsWith('[decision ') ? 'decision' : 'test';
}

/** Checks a place: a test, a plan, or a decision with optional tests. */
function placeProblems({ id, where }: Row, readFile: SeedTestMap['readFile']): string[] {
  const [first = '', ...others] = where.split('<br>').map((place) => place.trim());
  const tests = others.flatMap((test) => testProblems(id, test, readFile));
  switch (kindOf(where)) {
    case 'planned': {
      const capability = where.slice('planned:'.length).trim();
      const known = PLANNED.some((each) => each === capability);
      return known ? [] : [`${id} is planned for "${capability}", which is no planned capability`];
    }
    case 'decision': {
      const path = /^\[decision \d{3}\]\((decisions\/[\w-]+\.md)\)$/.exec(first)?.[1];
      const found = path !== undefined && readFile(`docs/${path}`) !== undefined;
      return found ? tests : [`${id} names a decision that does not exist: ${first}`, ...tests];
    }
    case 'test':
      return [...testProblems(id, first, readFile), ...tests];
  }
}

function testProblems(id: string, test: string, readFile: SeedTestMap['readFile']): string[] {
  const [, path, title] = /^`([^`]+)`: (.+)$/.exec(test) ?? [];
  if (path === undefined || title === undefined) {
    return [`${id} names neither a test, a decision nor a plan: ${test}`];
  }
  const text = readFile(path);
  if (text === undefined) return [`${id} names ${path}, which does not exist`];
  return hasTitle(text, title) ? [] : [`${id}: ${path} has no test "${title}"`];
}

function hasTitle(text: string, title: string): boolean {
  return ["'", '"', '`'].some((quote) => text.includes(quote + title + quote));
}
