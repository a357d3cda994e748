import { describe, expect, it } from 'vitest';
import { chooseDue } from './choose-due.ts';

const due = (key: number, nextAt: number) => ({ key, nextAt });

function choose(max: number, trusted: ReturnType<typeof due>[], suspects: typeof trusted = []) {
  return chooseDue({ max, trusted, suspects: () => suspects, keyOf: ({ key }) => key }).map(
    ({ key }) => key,
  );
}

describe('chooseDue', () => {
  it('takes the longest due first, up to the maximum, each once', () => {
    expect(choose(3, [due(1, 30), due(2, 10), due(3, 20), due(4, 40), due(2, 10)])).toEqual([
      2, 3, 1,
    ]);
    expect(choose(0, [due(1, 30)])).toEqual([]);
  });

  it('takes one suspect alone, and only when nothing else is due', () => {
    expect(choose(5, [due(1, 30)], [due(2, 10)])).toEqual([1]);
    expect(choose(5, [], [due(3, 20), due(2, 10)])).toEqual([2]);
  });

  it('lets no steady backlog starve a suspect', () => {
    expect(choose(5, [due(1, 300_010)], [due(2, 10)])).toEqual([1]);
    expect(choose(5, [due(1, 300_011)], [due(2, 10)])).toEqual([2]);
  });
});
