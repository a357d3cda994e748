import { describe, expect, it } from 'vitest';
import { isPerdureError } from '../model/failures/errors.ts';
import { FakeClock } from './fake-clock.ts';

describe('FakeClock', () => {
  it('starts at a fixed default time and does not advance by itself', async () => {
    const clock = new FakeClock();
    const start = clock.now();
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(clock.now()).toBe(start);
    expect(start).toBe(Date.UTC(2030, 0, 1));
    expect(new FakeClock({ startAt: 7 }).now()).toBe(7);
  });

  it('advance() accepts every duration notation, and advanceTo() a time', async () => {
    const clock = new FakeClock({ startAt: 0 });
    await clock.advance(5);
    expect(clock.now()).toBe(5);
    await clock.advance('30d');
    expect(clock.now()).toBe(5 + 30 * 86_400_000);
    await clock.advanceTo(3_000_000_000);
    expect(clock.now()).toBe(3_000_000_000);
  });

  it('setBack() and setForward() change only the wall clock, after earlier advances', async () => {
    const clock = new FakeClock({ startAt: 1_000 });
    let fired = 0;
    clock.setTimer(150, () => fired++);
    await Promise.all([clock.advance(100), clock.setBack(60), clock.advance(10)]);
    expect([clock.now(), clock.monotonic()]).toEqual([1_050, 110]);
    expect(clock.nextAlarmAt).toBe(1_090);
    await clock.setForward('1h');
    expect([clock.now(), clock.monotonic()]).toEqual([3_601_050, 110]);
    await clock.advance(39);
    expect(fired).toBe(0);
    await clock.advance(1);
    expect(fired).toBe(1);
  });

  it('fires due alarms in order, each at its due time', async () => {
    const clock = new FakeClock({ startAt: 0 });
    const fired: string[] = [];
    const note = (label: string) => () => void fired.push(`${label}@${clock.now()}`);
    clock.setTimer(30, note('late'));
    clock.setTimer(10, note('early'));
    clock.setTimer(10, note('early too'));
    clock.setTimer(31, note('not yet'));
    await clock.advance(30);
    expect(fired).toEqual(['early@10', 'early too@10', 'late@30']);
    expect(clock.now()).toBe(30);
    expect(clock.nextAlarmAt).toBe(31);
    expect(clock.alarmCount).toBe(1);
  });

  it('fires no alarm twice, and no canceled alarm', async () => {
    const clock = new FakeClock({ startAt: 0 });
    let kept = 0;
    let dropped = 0;
    clock.setTimer(10, () => kept++);
    const cancelTimer = clock.setTimer(10, () => dropped++);
    cancelTimer();
    await clock.advance(10);
    await clock.advance(10);
    expect({ kept, dropped }).toEqual({ kept: 1, dropped: 0 });
    expect(clock.nextAlarmAt).toBeUndefined();
  });

  it('does not fire an alarm that another alarm of the same time cancels', async () => {
    const clock = new FakeClock({ startAt: 0 });
    let fired = false;
    const cancels: (() => void)[] = [];
    clock.setTimer(10, () => cancels.forEach((cancelTimer) => cancelTimer()));
    cancels.push(clock.setTimer(10, () => (fired = true)));
    await clock.advance(10);
    expect(fired).toBe(false);
  });

  it('fires an alarm that is already due without an advance', async () => {
    const clock = new FakeClock({ startAt: 100 });
    let firedAt: number | undefined;
    await new Promise<void>((resolve) => {
      clock.setTimer(-50, () => {
        firedAt = clock.now();
        resolve();
      });
      expect(firedAt).toBeUndefined();
    });
    expect(firedAt).toBe(100);
    expect(clock.alarmCount).toBe(0);
  });

  it('fires alarms that woken code sets during an advance', async () => {
    const clock = new FakeClock({ startAt: 0 });
    const wokenAt: number[] = [];
    const sleep = (ms: number) => new Promise<void>((resolve) => void clock.setTimer(ms, resolve));
    const loop = (async () => {
      for (let day = 0; day < 3; day++) {
        await sleep(1_000);
        await new Promise((resolve) => setImmediate(resolve));
        wokenAt.push(clock.now());
      }
    })();
    await clock.advance(10_000);
    expect(wokenAt).toEqual([1_000, 2_000, 3_000]);
    expect(clock.now()).toBe(10_000);
    await loop;
  });

  it('awaits the settle option before and after each alarm', async () => {
    let settled = 0;
    const clock = new FakeClock({ startAt: 0, settle: async () => void settled++ });
    clock.setTimer(1, () => undefined);
    clock.setTimer(2, () => undefined);
    await clock.advance(5);
    expect(settled).toBe(3);
  });

  it('runs concurrent advances one after the other', async () => {
    const clock = new FakeClock({ startAt: 0 });
    const firedAt: number[] = [];
    clock.setTimer(15, () => void firedAt.push(clock.now()));
    await Promise.all([clock.advance(10), clock.advance(10)]);
    expect(clock.now()).toBe(20);
    expect(firedAt).toEqual([15]);
  });

  it('rounds alarms up to whole milliseconds', async () => {
    const clock = new FakeClock({ startAt: 0 });
    const firedAt: number[] = [];
    clock.setTimer(10 / 3, () => void firedAt.push(clock.now()));
    await clock.advance(10);
    expect(firedAt).toEqual([4]);
  });

  it('advanceTo() a past time rejects with INVALID_DURATION, and later advances work', async () => {
    const clock = new FakeClock({ startAt: 100 });
    const error: unknown = await clock.advanceTo(99).catch((thrown: unknown) => thrown);
    expect(isPerdureError(error, 'INVALID_DURATION')).toBe(true);
    expect(() => clock.advance(-1)).toThrow(expect.objectContaining({ code: 'INVALID_DURATION' }));
    await clock.advance(1);
    expect(clock.now()).toBe(101);
  });

  it('advance() rejects with the error of a callback', async () => {
    const clock = new FakeClock({ startAt: 0 });
    clock.setTimer(1, () => {
      throw new Error('broken callback');
    });
    await expect(clock.advance(1)).rejects.toThrow('broken callback');
  });
});
