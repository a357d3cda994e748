/** Checks that every export of the package has a doc comment. */
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { exportedNames } from './exported-docs.ts';

const root = join(import.meta.dirname, '..');
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, { default: string }>;
};

const entries = Object.values(exports).map(
  (target) => `src/${posix.basename(target.default, '.js')}.ts`,
);
const found = entries.map((entry) => ({
  entry,
  names: exportedNames(entry, (path) => readFileSync(join(root, path), 'utf8')),
}));
const problems = found.flatMap(({ entry, names }) => [
  ...(names.length === 0 ? [`${entry} exports nothing`] : []),
  ...names
    .filter(({ documented }) => !documented)
    .map(({ name, path }) => `${path}: ${name} is exported by ${entry} without a doc comment`),
]);

for (const problem of new Set(problems)) console.error(problem);
console.log(found.map(({ entry, names }) => `${entry}: ${names.length} exports`).join(', '));
if (problems.length > 0) process.exitCode = 1;
