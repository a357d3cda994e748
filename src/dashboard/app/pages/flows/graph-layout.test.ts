import { expect, test } from 'vitest';
import { layOut } from './graph-layout.ts';

const box = (name: string): { name: string; width: number; height: number } => ({
  name,
  width: 184,
  height: 58,
});

test('steps lie below the steps that they need', () => {
  const { boxes, paths } = layOut([box('a'), box('b')], [{ from: 'a', to: 'b' }]);
  expect(boxes.get('b')?.y).toBeGreaterThan(boxes.get('a')?.y ?? 0);
  expect(paths[0]?.path).toMatch(/^M112 78L112 \d+/);
});

test('two edges between the same steps are one line, and edges to unknown steps none', () => {
  const edges = [
    { from: 'a', to: 'b' },
    { from: 'a', to: 'b' },
    { from: 'a', to: 'gone' },
  ];
  expect(layOut([box('a'), box('b')], edges).paths).toHaveLength(1);
});

/** Rows of ten steps; each needs two of the row before, and every seventh one of the first row too. */
function layered(count: number): {
  names: readonly string[];
  edges: { from: string; to: string }[];
} {
  const names = Array.from({ length: count }, (_, index) => `step ${index}`);
  const edges = names.flatMap((to, index) => {
    const before = Math.floor(index / 10) * 10 - 10;
    if (before < 0) return [];
    const needs = [before + (index % 10), before + ((index * 3 + 1) % 10)];
    return [...needs, ...(index % 7 === 0 ? [index % 10] : [])].map((from) => ({
      from: `step ${from}`,
      to,
    }));
  });
  return { names, edges };
}

test('many steps lie below those that they need, apart from each other and inside the graph', () => {
  const { names, edges } = layered(300);
  const { boxes, paths, width, height } = layOut(names.map(box), edges);
  const at = (name: string) => boxes.get(name) ?? { x: Number.NaN, y: Number.NaN };
  for (const { from, to } of edges) expect(at(to).y).toBeGreaterThan(at(from).y + 58);
  const rows = Map.groupBy(names, (name) => at(name).y);
  for (const row of rows.values()) {
    const places = row.map((name) => at(name).x).sort((a, b) => a - b);
    for (const [index, x] of places.slice(1).entries()) {
      expect(x - (places[index] ?? 0)).toBeGreaterThanOrEqual(184 + 28 - 0.001);
    }
  }
  for (const { x, y } of boxes.values()) {
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + 184).toBeLessThanOrEqual(width);
    expect(y + 58).toBeLessThanOrEqual(height);
  }
  for (const { path } of paths) expect(path).not.toContain('NaN');
});
