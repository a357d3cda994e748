import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from './run-program.ts';
import { findSwallowedCancels } from './swallowed-cancels.ts';

describe('orchestrations in examples and documents', () => {
  const programs = globSync(['examples/*.ts', 'demo/*.ts'], { cwd: root }).sort();
  it.each(programs)('no orchestration in %s swallows a cancel', (program) => {
    expect(findSwallowedCancels(readFileSync(join(root, program), 'utf8'))).toEqual([]);
  });

  const documents = ['README.md', ...globSync('docs/**/*.md', { cwd: root }).sort()];
  it.each(documents)('no orchestration in a snippet of %s swallows a cancel', (document) => {
    const text = readFileSync(join(root, document), 'utf8');
    const blocks = [...text.matchAll(/(<!-- from \S+ -->\n+)?```ts\n(.*?)```/gs)];
    // Snippets taken from examples are checked with the examples.
    const own = blocks.flatMap(([, source, code = '']) => (source === undefined ? [code] : []));
    expect(own.flatMap(findSwallowedCancels)).toEqual([]);
  });
});

describe('findSwallowedCancels', () => {
  const inside = (body: string): string => `orchestration('x', async (ctx) => { ${body} });`;

  it.each([
    'try { await ctx.sleep(1); } catch { return 1; }',
    'try { await ctx.sleep(1); } catch (error) { log(error); }',
    'return await ctx.call(a).catch(() => undefined);',
    'return await ctx.call(a).then((b) => b, () => undefined);',
    'return await Promise.allSettled([ctx.call(a)]);',
    'await Promise.all(list.map(async (x) => { try { await ctx.call(x); } catch {} }));',
  ])('findSwallowedCancels() finds %s', (body) => {
    expect(findSwallowedCancels(inside(body))).toHaveLength(1);
  });

  it.each([
    "try { await ctx.sleep(1); } catch (error) { if (!isPerdureError(error, 'TIMEOUT')) throw error; }",
    'try { await ctx.sleep(1); } finally { await ctx.shield(() => ctx.call(a).catch(log)); }',
    'const done = await ctx.allSettled([ctx.call(a)]); ctx.throwIfCanceled(); return done;',
    'try { await ctx.call(a); } catch { ctx.throwIfCanceled(); return 1; }',
  ])('findSwallowedCancels() accepts %s', (body) => {
    expect(findSwallowedCancels(inside(body))).toEqual([]);
  });

  it('findSwallowedCancels() ignores a catch outside orchestrations', () => {
    expect(findSwallowedCancels('await handle.result().catch(log);')).toEqual([]);
  });
});
