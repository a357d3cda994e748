import { expect, test } from 'vitest';
import { FakeClock } from '../testing/fake-clock.ts';
import { PeriodicLoop } from './periodic-loop.ts';

function setUp({ sleepMs = 1_000, takesMs = 0 } = {}) {
  const clock = new FakeClock({ startAt: 0 });
  const begun: number[] = [];
  const errors: unknown[] = [];
  let error: Error | undefined;
  const rounds = new PeriodicLoop({
    clock,
    async round() {
      begun.push(clock.now());
      if (error !== undefined) throw error;
      if (takesMs > 0) {
        await new Promise<void>((resolve) => {
          clock.setTimer(takesMs, resolve);
        });
      }
      return sleepMs;
    },
    onError: (caught) => errors.push(caught),
  });
  return { clock, rounds, begun, errors, fail: (with_: Error | undefined) => (error = with_) };
}

test('the loop sleeps for the delay that the last round returned', async () => {
  const { clock, rounds, begun } = setUp();
  rounds.start();
  await clock.advance(2_500);
  expect(begun).toEqual([0, 1_000, 2_000]);
});

test('wakeIn() uses the earliest time', async () => {
  const { clock, rounds, begun } = setUp();
  rounds.start();
  await clock.advance(100);
  rounds.wakeIn(600);
  rounds.wakeIn(300);
  rounds.wakeIn(500);
  await clock.advance(1_350);
  expect(begun).toEqual([0, 400, 1_400]);
});

test('wakeIn() during a round starts another round without the sleep', async () => {
  const { clock, rounds, begun } = setUp({ takesMs: 50 });
  rounds.start();
  await clock.advance(10);
  rounds.wakeIn(10);
  await clock.advance(100);
  expect(begun).toEqual([0, 50]);
});

test('a round that rejects is reported and retried after a second', async () => {
  const { clock, rounds, begun, errors, fail } = setUp({ sleepMs: 60_000 });
  fail(new Error('no store'));
  rounds.start();
  await clock.advance(999);
  fail(undefined);
  await clock.advance(2_000);
  expect(begun).toEqual([0, 1_000]);
  expect(errors).toEqual([new Error('no store')]);
});

test('no round runs before start() or after stop(), and stop() waits for the current round', async () => {
  const { clock, rounds, begun } = setUp({ takesMs: 50 });
  rounds.wakeIn(-100);
  await clock.advance(100);
  expect(begun).toEqual([]);
  rounds.start();
  const stopped = rounds.stop();
  let isStopped = false;
  void stopped.then(() => (isStopped = true));
  await clock.advance(49);
  expect(isStopped).toBe(false);
  await clock.advance(1);
  await stopped;
  rounds.wakeIn(0);
  await clock.advance(5_000);
  expect(begun).toEqual([100]);
});
