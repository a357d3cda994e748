import { expect, it } from 'vitest';
import { Execution } from '../../replay/execution.ts';
import { FaultReporter, WarmInstance } from './warm-instance.ts';
import { WarmTimers } from './timer-turns.ts';

function warm(instanceKey: number): WarmInstance {
  const instanceId = `i${instanceKey}`;
  const subject = { instanceId, executionId: 1, name: 'n', version: '1', parent: null };
  const program = async () => undefined;
  const execution = new Execution({ instanceId, incarnation: 'a', executionId: 1, program });
  const code = { execution, faults: new FaultReporter(instanceId, () => undefined), watchdogId: 0 };
  return new WarmInstance({ instanceKey, subject, incarnation: 'a', code, lastTurn: 't' });
}

function open() {
  const firsts: number[] = [];
  const timers = new WarmTimers((fireAt) => firsts.push(fireAt));
  const set = (one: WarmInstance, operation: number, fireAt: number) => {
    one.timers.set(operation, fireAt);
    timers.add(one, operation, fireAt);
  };
  return { timers, set, firsts };
}

it('takeDue() returns each timer once, in order, and not before it is due', () => {
  const { timers, set } = open();
  const times = Array.from({ length: 200 }, (_, n) => (n * 7_919) % 199);
  const instances = times.map((_, index) => warm(index));
  for (const [index, fireAt] of times.entries()) set(instances[index] ?? warm(-1), 1, fireAt);
  const taken: number[] = [];
  for (let now = timers.nextAt; now !== Infinity; now = timers.nextAt) {
    for (const { timers: own } of timers.takeDue(now, 3)) taken.push(own.get(1) ?? -1);
    expect(timers.nextAt).toBeGreaterThanOrEqual(now);
  }
  expect(taken).toEqual(times.toSorted((a, b) => a - b));
});

it('takeDue() skips fired and withdrawn timers, and timers of evicted instances', () => {
  const { timers, set } = open();
  const [fired, gone, waiting] = [warm(1), warm(2), warm(3)];
  for (const [index, one] of [fired, gone, waiting].entries()) set(one, 1, index);
  fired.timers.delete(1);
  gone.discard();
  expect(timers.nextAt).toBe(2);
  expect(timers.takeDue(5, 10)).toEqual([waiting]);
  expect(timers.nextAt).toBe(Infinity);
});

it('onFirst is called only for a timer that is due before all others', () => {
  const { set, firsts } = open();
  for (const [index, fireAt] of [50, 70, 50, 20].entries()) set(warm(index), 1, fireAt);
  expect(firsts).toEqual([50, 20]);
});

it('WarmTimers sweeps outdated entries once they outnumber the pending ones', () => {
  const { timers, set } = open();
  const kept = warm(0);
  set(kept, 1, 1_000_000);
  for (let index = 1; index <= 5_000; index += 1) {
    const one = warm(index);
    set(one, 1, 2_000_000);
    one.timers.clear();
  }
  expect(timers.size).toBeLessThan(1_100);
  expect(timers.nextAt).toBe(1_000_000);
});
