import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from './run-program.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** The codes of the union `ErrorCode`. */
function declaredCodes(): readonly string[] {
  const union = /export type ErrorCode =(?<codes>.*?);/s.exec(read('src/model/failures/errors.ts'));
  return [...(union?.groups?.['codes'] ?? '').matchAll(/'([A-Z_]+)'/g)].map(
    ([, code]) => `${code}`,
  );
}

const document = read('docs/errors.md');

/** The codes in the headings of the error reference. */
function documentedCodes(): readonly string[] {
  const headings = [...document.matchAll(/^### (.+)$/gm)].map(([, heading]) => heading ?? '');
  return headings.flatMap((heading) =>
    [...heading.matchAll(/`([A-Z_]+)`/g)].map(([, code]) => `${code}`),
  );
}

it('docs/errors.md documents every ErrorCode exactly once and no other code', () => {
  const declared = declaredCodes();
  expect(declared.length).toBeGreaterThan(50);
  expect(documentedCodes().toSorted()).toEqual(declared.toSorted());
});

it('every section of docs/errors.md has When, Cause and Fix entries', () => {
  const sections = document.split(/^### /m).slice(1);
  for (const section of sections) {
    for (const label of ['- **When**: ', '- **Cause**: ', '- **Fix**: ']) {
      expect(section).toContain(label);
    }
  }
});

it('the overview of docs/errors.md lists every documented code', () => {
  const overview = [...document.matchAll(/^\| \[.*$/gm)].join('\n');
  for (const code of documentedCodes()) expect(overview).toContain(`\`${code}\``);
});
