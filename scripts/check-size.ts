/** Checks that no TypeScript file is longer than 500 lines. There is no list of exceptions. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const LONGEST = 500;
const FOLDERS = '{src,test,bench,examples,demo,scripts}';
const root = join(import.meta.dirname, '..');

const files = globSync(`${FOLDERS}/**/*.ts`, {
  cwd: root,
  exclude: (path) => path.includes('node_modules'),
}).map((path) => {
  const text = readFileSync(join(root, path), 'utf8');
  return { path, lines: text.split('\n').length - (text.endsWith('\n') ? 1 : 0) };
});
const tooLong = files.filter(({ lines }) => lines > LONGEST);

for (const { path, lines } of tooLong) {
  console.error(`${path} has ${lines} lines; find the concept inside that wants its own file.`);
}
console.log(`${files.length} files read, ${tooLong.length} above ${LONGEST} lines.`);
if (tooLong.length > 0 || files.length === 0) process.exitCode = 1;
