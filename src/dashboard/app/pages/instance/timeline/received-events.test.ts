import { expect, test } from 'vitest';
import { withReceived } from './received-events.ts';
import type { Item, Mark } from './timeline-item.ts';

const wait = (operation: number, name: string, startedAt: number, more: object = {}): Item => ({
  operation,
  kind: 'event',
  name,
  startedAt,
  ...more,
});
const received = (id: number, name: string, at: number): Mark => ({
  id,
  kind: 'eventReceived',
  at,
  name,
});
const ends = (items: readonly Item[]): readonly (number | undefined)[] =>
  items.map(({ endedAt }) => endedAt);

test('the oldest wait for a name takes the oldest event of that name', () => {
  const items = [wait(1, 'paid', 10), wait(2, 'paid', 20), wait(3, 'shipped', 30)];
  const marks = [received(4, 'paid', 15), received(5, 'shipped', 40)];
  expect(ends(withReceived(items, marks))).toEqual([15, undefined, 40]);
});

test('an event that came before the wait ends it when it starts', () => {
  expect(ends(withReceived([wait(1, 'paid', 50)], [received(2, 'paid', 15)]))).toEqual([50]);
});

test('a withdrawn wait and other operations take no event', () => {
  const items = [
    wait(1, 'paid', 10, { withdrawnAt: 12 }),
    wait(2, 'paid', 20),
    wait(3, 'paid', 5, { kind: 'activity' }),
  ];
  expect(ends(withReceived(items, [received(4, 'paid', 25)]))).toEqual([undefined, 25, undefined]);
});
