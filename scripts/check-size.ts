/**
 * Reports TypeScript files above 500 lines: a sign that a file may hold more than one concept. Fails above 800 lines, and
 * for a folder of `src/` with more than 25 modules.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const WARN_LINES = 500;
const MAX_LINES = 800;
const MAX_MODULES = 25;
const FOLDERS = '{src,test,bench,examples,demo,scripts}';
const root = join(import.meta.dirname, '..');

const files = globSync(`${FOLDERS}/**/*.{ts,tsx}`, {
  cwd: root,
  exclude: (path) => path.includes('node_modules') || path.includes('generated'),
}).map((path) => {
  const text = readFileSync(join(root, path), 'utf8');
  return { path, lines: text.split('\n').length - (text.endsWith('\n') ? 1 : 0) };
});
const long = files.filter(({ lines }) => lines > WARN_LINES);
const tooLong = long.filter(({ lines }) => lines > MAX_LINES);

const modules = files.filter(({ path }) => path.startsWith('src') && !path.endsWith('.test.ts'));
const folders = Map.groupBy(modules, ({ path }) => dirname(path));
const tooFull = [...folders].filter(([, inside]) => inside.length > MAX_MODULES);

for (const { path, lines } of long) {
  console.error(`${path} has ${lines} lines (${lines > MAX_LINES ? 'limit' : 'warning'}).`);
}
for (const [folder, inside] of tooFull) {
  console.error(
    `${folder} has ${inside.length} modules; divide it into folders of at most ${MAX_MODULES}.`,
  );
}
console.log(
  `${files.length} files read: ${long.length} above ${WARN_LINES} lines, ${tooLong.length} above ${MAX_LINES}; ${tooFull.length} folders above ${MAX_MODULES} modules.`,
);
if (tooLong.length > 0 || tooFull.length > 0 || files.length === 0) process.exitCode = 1;
