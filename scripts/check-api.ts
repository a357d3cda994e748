/** Checks that docs/api.md matches the table of routes. `--write` updates it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'prettier';
import { apiDocument } from './api-document.ts';

const root = join(import.meta.dirname, '..');
const file = join(root, 'docs', 'api.md');
const config = JSON.parse(readFileSync(join(root, '.prettierrc.json'), 'utf8')) as object;
const wanted = await format(apiDocument(), { ...config, parser: 'markdown' });

if (process.argv.includes('--write')) writeFileSync(file, wanted);
const found = readFileSync(file, 'utf8');
if (found === wanted) {
  console.log(`docs/api.md describes ${wanted.split('\n### ').length - 1} routes and shapes.`);
} else {
  console.error('docs/api.md differs from the routes. Run: node scripts/check-api.ts --write');
  process.exitCode = 1;
}
