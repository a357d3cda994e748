import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');

/**
 * Writes a program of this folder as JavaScript, because type stripping takes more time and memory than a small program. It can
 * import `perdure` only. Returns its path.
 */
export function createPlainProgram(name: string, folder: string): string {
  const program = join(folder, `${name}.mjs`);
  const source = readFileSync(join(import.meta.dirname, `${name}.ts`), 'utf8');
  writeFileSync(program, stripTypeScriptTypes(source));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules', 'perdure'), 'junction');
  return program;
}
