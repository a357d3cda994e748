import { expect, it } from 'vitest';
import { Execution } from '../../replay/execution.ts';
import { BrokenCode, LiveInstance } from './warm-instance.ts';
import { WarmCache } from './warm-cache.ts';

function live(instanceKey: number, instanceId = `i${instanceKey}`): LiveInstance {
  const execution = new Execution({
    instanceId,
    incarnation: 'a',
    executionId: 1,
    program: async () => undefined,
  });
  const broken = new BrokenCode(instanceId, () => undefined);
  const subject = {
    instanceId,
    executionId: 1,
    name: 'n',
    version: '1',
    parent: null,
  };
  return new LiveInstance({
    instanceKey,
    subject,
    incarnation: 'a',
    code: { execution, broken, watched: 0 },
    lastTurn: 't',
  });
}

const one = live(0).execution.sizeBytes;

it('the instance that rested longest goes first when the bytes run out', () => {
  const cache = new WarmCache(one * 2);
  const [a, b, c] = [live(1), live(2), live(3)];
  cache.put(a);
  cache.put(b);
  cache.put(a);
  cache.put(c);
  expect([cache.get(1), cache.get(2), cache.get(3)]).toEqual([a, undefined, c]);
  expect([a.gone, b.gone, c.gone]).toEqual([false, true, false]);
});

it('an instance that is in the middle of a turn is never taken away', () => {
  const cache = new WarmCache(one);
  const busy = live(1);
  busy.tryAcquire();
  cache.put(busy);
  const resting = live(2);
  cache.put(resting);
  expect(busy.gone).toBe(false);
  expect(cache.get(1)).toBe(busy);
});

it('an instance that comes late does not replace one that somebody is at', () => {
  const cache = new WarmCache(one * 3);
  const [late, busy] = [live(1), live(1)];
  cache.put(busy);
  busy.tryAcquire();
  cache.put(late);
  expect(cache.get(1)).toBe(busy);
  expect([late.gone, busy.gone]).toEqual([true, false]);
  busy.release();
  const next = live(1);
  cache.put(next);
  expect(cache.get(1)).toBe(next);
  expect(busy.gone).toBe(true);
});

it('what is over or gone is dropped by its id, unless it is in the middle of a turn', () => {
  const cache = new WarmCache(one * 3);
  const [gone, busy, other] = [live(1), live(2), live(3)];
  busy.tryAcquire();
  for (const each of [gone, busy, other]) cache.put(each);
  cache.evictIdle(['i1', 'i2', 'unknown']);
  expect([gone.gone, busy.gone, other.gone]).toEqual([true, false, false]);
  expect(cache.size).toBe(2);
});

it('the end of a former life does not take the present one out', () => {
  const cache = new WarmCache(one * 3);
  const [former, present] = [live(1, 'same'), live(2, 'same')];
  cache.put(former);
  cache.put(present);
  cache.evict(former);
  expect(cache.get(2)).toBe(present);
  cache.evictIdle(['same']);
  expect(present.gone).toBe(true);
});

it('turns of one instance wait for each other, in order', async () => {
  const instance = live(1);
  const order: string[] = [];
  expect(instance.tryAcquire()).toBe(true);
  const second = instance.acquire().then(() => order.push('second'));
  const third = instance.acquire().then(() => order.push('third'));
  expect(instance.tryAcquire()).toBe(false);
  instance.release();
  await second;
  expect(order).toEqual(['second']);
  instance.release();
  await third;
  expect(order).toEqual(['second', 'third']);
  instance.release();
  expect(instance.tryAcquire()).toBe(true);
});
