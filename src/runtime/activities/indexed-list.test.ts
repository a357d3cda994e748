import { expect, it } from 'vitest';
import { IndexedList } from './indexed-list.ts';

it('an indexed list keeps every member that was not deleted', () => {
  const list = new IndexedList<{ index: number; readonly name: string }>();
  const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ index: 0, name })) as [
    { index: number; name: string },
    { index: number; name: string },
    { index: number; name: string },
  ];
  for (const member of [a, b, c]) list.add(member);
  list.delete(a);
  expect(list.values()).toEqual([c, b]);
  list.delete(b);
  list.add(a);
  expect(list.values().map(({ name }) => name)).toEqual(['c', 'a']);
  for (const member of list.values()) list.delete(member);
  expect(list.size).toBe(0);
});
