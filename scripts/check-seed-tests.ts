/** Checks that docs/seed-tests.md maps every case of docs/seed-cases.json to an existing test or decision. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkSeedTestMap } from './seed-test-map.ts';

const root = join(import.meta.dirname, '..');

function readFile(path: string): string | undefined {
  const file = join(root, path);
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

const { problems, tested, decided, planned } = checkSeedTestMap({
  cases: readFile('docs/seed-cases.json') ?? '{}',
  table: readFile('docs/seed-tests.md') ?? '',
  readFile,
});
for (const problem of problems) console.error(problem);
console.log(`${tested} cases tested, ${decided} decided otherwise, ${planned} planned.`);
if (problems.length > 0) process.exitCode = 1;
