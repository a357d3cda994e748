/** Checks that docs/api.md is what the table of routes makes it; `--write` makes it so. */
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
  console.log(`docs/api.md tells of ${wanted.split('\n### ').length - 1} routes and shapes.`);
} else {
  console.error('docs/api.md is not what the routes say. Run: node scripts/check-api.ts --write');
  process.exitCode = 1;
}
