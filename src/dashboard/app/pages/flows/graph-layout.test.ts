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

test('a flow of 300 steps is laid out in less than 300 ms, as the median of 5', () => {
  const names = Array.from({ length: 300 }, (_, index) => `step ${index}`);
  const edges = names.slice(1).map((to, index) => ({ from: `step ${Math.floor(index / 3)}`, to }));
  const times = Array.from({ length: 5 }, () => {
    const start = performance.now();
    expect(layOut(names.map(box), edges).boxes.size).toBe(300);
    return performance.now() - start;
  }).sort((a, b) => a - b);
  expect(times[2]).toBeLessThan(300);
});
