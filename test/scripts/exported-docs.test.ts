import { expect, test } from 'vitest';
import { exportedNames } from '../../scripts/exported-docs.ts';

function check(files: Readonly<Record<string, string>>) {
  return exportedNames('src/index.ts', (path) => {
    const text = files[path];
    if (text === undefined) throw new Error(`no file ${path}`);
    return text;
  });
}

test('a re-exported name is checked at its declaration, under its declared name', () => {
  const names = check({
    'src/index.ts': `export { b as c } from './x/b.ts'; export type { T } from './x/t.ts';`,
    'src/x/b.ts': `/** Says b. */\nexport function b(): void {}`,
    'src/x/t.ts': `// Only a comment.\nexport type T = string;`,
  });
  expect(names).toEqual([
    { name: 'c', path: 'src/x/b.ts', documented: true },
    { name: 'T', path: 'src/x/t.ts', documented: false },
  ]);
});

test('export * and exports of imported names are followed to their declarations', () => {
  const names = check({
    'src/index.ts': `import { a } from './a.ts'; export * from './b.ts'; export { a };`,
    'src/a.ts': `/** A. */\nexport const a = 1;`,
    'src/b.ts': `export interface B {}\nexport class C {}`,
  });
  expect(names).toEqual([
    { name: 'B', path: 'src/b.ts', documented: false },
    { name: 'C', path: 'src/b.ts', documented: false },
    { name: 'a', path: 'src/a.ts', documented: true },
  ]);
});

test('the doc comment of a previous statement does not count', () => {
  const names = check({
    'src/index.ts': `/** One. */\nexport const one = 1;\nexport const two = 2;`,
  });
  expect(names.map(({ documented }) => documented)).toEqual([true, false]);
});

test('one doc comment covers all overloads', () => {
  const names = check({
    'src/index.ts': `/** F. */\nexport function f(a: string): void;\nexport function f(): void {}`,
  });
  expect(new Set(names.map(({ documented }) => documented))).toEqual(new Set([true]));
});

test('an exported name without a declaration is reported', () => {
  expect(() => check({ 'src/index.ts': `export { a } from './a.ts';`, 'src/a.ts': '' })).toThrow(
    'src/a.ts: no declaration of a found',
  );
});
