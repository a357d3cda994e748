/** Checks that docs/api.md matches the table of routes. `--write` updates it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apiDocument } from './api-document.ts';
import { formatDocument } from './format-document.ts';

const root = join(import.meta.dirname, '..');
const file = join(root, 'docs', 'api.md');
const wanted = await formatDocument(apiDocument());

if (process.argv.includes('--write')) writeFileSync(file, wanted);
const found = readFileSync(file, 'utf8');
if (found === wanted) {
  console.log(`docs/api.md describes ${wanted.split('\n### ').length - 1} routes and shapes.`);
} else {
  console.error('docs/api.md differs from the routes. Run: node scripts/check-api.ts --write');
  process.exitCode = 1;
}
