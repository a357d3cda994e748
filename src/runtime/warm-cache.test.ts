import { expect, it } from 'vitest';
import { Execution } from '../replay/execution.ts';
import { BrokenCode } from './broken-code.ts';
import { LiveInstance } from './live-instance.ts';
import { WarmCache } from './warm-cache.ts';

function live(instanceKey: number): LiveInstance {
  const execution = new Execution({
    instanceId: `i${instanceKey}`,
    incarnation: 'a',
    executionId: 1,
    program: async () => undefined,
  });
  const broken = new BrokenCode(`i${instanceKey}`, () => undefined);
  const subject = {
    instanceId: `i${instanceKey}`,
    executionId: 1,
    name: 'n',
    version: '1',
    parent: null,
  };
  return new LiveInstance({
    instanceKey,
    subject,
    incarnation: 'a',
    code: { execution, broken },
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
