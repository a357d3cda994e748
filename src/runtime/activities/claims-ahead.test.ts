import { expect, it } from 'vitest';
import type { Clock } from '../../model/clock.ts';
import type { ActivityRun } from './activity-run.ts';
import { ClaimsAhead } from './claims-ahead.ts';

/** A place to wait, with a clock that the test moves, and the names of the runs that were handed back. */
function setUp({ runs = 32, ms = 1 } = {}) {
  let now = 0;
  const timers = new Set<() => void>();
  const clock: Partial<Clock> = {
    monotonic: () => now,
    setTimer: (_, call) => {
      timers.add(call);
      return () => timers.delete(call);
    },
  };
  const ahead = new ClaimsAhead(clock as Clock);
  for (let count = 0; count < runs; count += 1) ahead.ended(ms);
  const handedBack: string[] = [];
  const add = (name: string) => {
    const run: Partial<ActivityRun> = {
      abandon: () => {
        handedBack.push(name);
        ahead.leave(place);
      },
    };
    const place = ahead.add(run as ActivityRun);
    return place;
  };
  const advance = (byMs: number): void => {
    now += byMs;
    const due = [...timers];
    timers.clear();
    for (const call of due) call();
  };
  return { ahead, add, advance, handedBack, timers };
}

it('a worker claims ahead after 32 fast runs, and not after a slow one', () => {
  expect(setUp({ runs: 31 }).ahead.room).toBe(0);
  const { ahead } = setUp();
  expect(ahead.room).toBe(750);
  ahead.ended(26);
  expect(ahead.room).toBe(0);
});

it('a worker claims ahead again when two thirds of the places are free, and the listener is called once', () => {
  const { ahead, add } = setUp();
  let calls = 0;
  ahead.onRoom(() => (calls += 1));
  for (let count = 0; count < 750; count += 1) add('run');
  expect(ahead.room).toBe(0);
  for (let count = 0; count < 499; count += 1) ahead.grantNext();
  expect([ahead.room, calls]).toEqual([0, 0]);
  ahead.grantNext();
  ahead.grantNext();
  expect([ahead.room, calls]).toEqual([501, 1]);
});

it('slots are granted in the order of the claims', async () => {
  const { ahead, add, timers } = setUp();
  const [first, second] = [add('first'), add('second')];
  expect(ahead.grantNext()).toBe(true);
  await first.granted;
  expect([first.hasSlot, second.hasSlot]).toEqual([true, false]);
  ahead.leave(second);
  expect(ahead.grantNext()).toBe(false);
  expect(timers.size).toBe(0);
});

it('runs that wait too long are handed back, and no more are claimed ahead', () => {
  const { ahead, add, advance, handedBack, timers } = setUp();
  add('old');
  advance(100);
  add('new');
  expect(handedBack).toEqual([]);
  advance(150);
  expect(handedBack).toEqual(['old']);
  expect(ahead.isFast).toBe(false);
  advance(250);
  expect(handedBack).toEqual(['old', 'new']);
  expect(timers.size).toBe(0);
});

it('handBack() hands all waiting runs back', () => {
  const { ahead, add, handedBack } = setUp();
  add('a');
  add('b');
  ahead.handBack();
  expect(handedBack).toEqual(['a', 'b']);
});
