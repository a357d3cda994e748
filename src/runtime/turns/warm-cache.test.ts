import { expect, it } from 'vitest';
import { Execution } from '../../replay/execution.ts';
import { FaultReporter, WarmInstance } from './warm-instance.ts';
import { WarmCache } from './warm-cache.ts';

function warm(instanceKey: number, instanceId = `i${instanceKey}`): WarmInstance {
  const execution = new Execution({
    instanceId,
    incarnation: 'a',
    executionId: 1,
    program: async () => undefined,
  });
  const faults = new FaultReporter(instanceId, () => undefined);
  const subject = {
    instanceId,
    executionId: 1,
    name: 'n',
    version: '1',
    parent: null,
  };
  return new WarmInstance({
    instanceKey,
    subject,
    incarnation: 'a',
    code: { execution, faults, watchdogId: 0 },
    lastTurn: 't',
  });
}

const one = warm(0).execution.sizeBytes;

it('WarmCache evicts the least recently used instance when it exceeds its bytes', () => {
  const cache = new WarmCache(one * 2);
  const [a, b, c] = [warm(1), warm(2), warm(3)];
  cache.put(a);
  cache.put(b);
  cache.put(a);
  cache.put(c);
  expect([cache.get(1), cache.get(2), cache.get(3)]).toEqual([a, undefined, c]);
  expect([a.isEvicted, b.isEvicted, c.isEvicted]).toEqual([false, true, false]);
});

it('WarmCache does not evict an instance during its turn', () => {
  const cache = new WarmCache(one);
  const busy = warm(1);
  busy.tryAcquire();
  cache.put(busy);
  const idle = warm(2);
  cache.put(idle);
  expect(busy.isEvicted).toBe(false);
  expect(cache.get(1)).toBe(busy);
});

it('put() of an older copy does not replace an instance during its turn', () => {
  const cache = new WarmCache(one * 3);
  const [late, busy] = [warm(1), warm(1)];
  cache.put(busy);
  busy.tryAcquire();
  cache.put(late);
  expect(cache.get(1)).toBe(busy);
  expect([late.isEvicted, busy.isEvicted]).toEqual([true, false]);
  busy.release();
  const next = warm(1);
  cache.put(next);
  expect(cache.get(1)).toBe(next);
  expect(busy.isEvicted).toBe(true);
});

it('evictIdle() evicts instances by id, except during their turn', () => {
  const cache = new WarmCache(one * 3);
  const [gone, busy, other] = [warm(1), warm(2), warm(3)];
  busy.tryAcquire();
  for (const each of [gone, busy, other]) cache.put(each);
  cache.evictIdle(['i1', 'i2', 'unknown']);
  expect([gone.isEvicted, busy.isEvicted, other.isEvicted]).toEqual([true, false, false]);
  expect(cache.size).toBe(2);
});

it('evict() of a deleted instance keeps a newer instance with the same id', () => {
  const cache = new WarmCache(one * 3);
  const [former, present] = [warm(1, 'same'), warm(2, 'same')];
  cache.put(former);
  cache.put(present);
  cache.evict(former);
  expect(cache.get(2)).toBe(present);
  cache.evictIdle(['same']);
  expect(present.isEvicted).toBe(true);
});

it('acquire() queues the turns of an instance in order', async () => {
  const instance = warm(1);
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
