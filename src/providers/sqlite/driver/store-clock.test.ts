import { expect, it } from 'vitest';
import { FakeClock } from '../../../testing/fake-clock.ts';
import { StoreClock, type ClockPlan } from './store-clock.ts';

const hourMs = 3_600_000;

function open(clock: FakeClock, stored?: ClockPlan, suspendedMs = () => 0): StoreClock {
  return new StoreClock({ clock, boot: 'a', aheadMs: 0, suspendedMs }, stored);
}

/** Commits the plan of a step, as the first transaction after it does. */
function share(clock: StoreClock, stored?: ClockPlan): ClockPlan | undefined {
  clock.now();
  if (!clock.hasUnsharedPlan) return stored;
  const plan = clock.agree(stored) ?? stored;
  clock.markShared();
  return plan;
}

it('equals the wall clock while that is not stepped', async () => {
  const machine = new FakeClock();
  const clock = open(machine);
  for (const ms of [1, 50, 86_400_000, 30 * 86_400_000]) {
    await machine.advance(ms);
    expect(clock.now()).toBe(machine.now());
    share(clock);
    expect(clock.hasUnsharedPlan).toBe(false);
  }
});

it.each([hourMs, -hourMs])(
  'keeps its rate for a minute after a step of %d ms, then slews by at most 5 %%',
  async (stepMs) => {
    const machine = new FakeClock();
    const clock = open(machine);
    const start = clock.now();
    await (stepMs > 0 ? machine.setForward(stepMs) : machine.setBack(-stepMs));
    share(clock);
    await machine.advance(60_000);
    expect(clock.now() - start).toBe(60_000);
    let [before, monotonic] = [clock.now(), clock.monotonic()];
    for (let minute = 0; minute < 20 * 60; minute++) {
      await machine.advance(60_000);
      const passedMs = clock.now() - before;
      expect(Math.abs(passedMs - 60_000)).toBeLessThanOrEqual(3_001);
      expect(Math.abs(clock.monotonic() - monotonic - passedMs)).toBeLessThanOrEqual(1);
      [before, monotonic] = [clock.now(), clock.monotonic()];
    }
    expect(clock.now()).toBe(machine.now());
  },
);

it('keeps its rate until the plan of a step is committed', async () => {
  const machine = new FakeClock();
  const clock = open(machine);
  share(clock);
  const start = clock.now();
  await machine.setForward('1h');
  expect(clock.now()).toBe(start);
  expect(clock.hasUnsharedPlan).toBe(true);
  await machine.advance('10h');
  expect(clock.now() - start).toBe(10 * hourMs);
});

it('gives processes the same time when they detect a step at different times or open the file later', async () => {
  const machine = new FakeClock();
  const [busy, idle] = [open(machine), open(machine)];
  await machine.setForward('1h');
  let plan = share(busy);
  await machine.advance('5h');
  plan = share(idle, plan);
  const late = open(machine, plan);
  const other = { clock: machine, boot: 'a', aheadMs: 0, suspendedMs: () => 0 };
  for (let hour = 0; hour < 20; hour++) {
    expect(idle.now()).toBe(busy.now());
    expect(late.now()).toBe(busy.now());
    expect(new StoreClock(other, plan).now()).toBe(busy.now());
    await machine.advance('1h');
  }
  expect(busy.now()).toBe(machine.now());
});

it('slews to the last of several steps', async () => {
  const machine = new FakeClock();
  const clock = open(machine);
  await machine.setForward('1h');
  const first = share(clock);
  await machine.advance('1h');
  await machine.setBack('1h');
  const second = share(clock, first);
  expect(second).not.toEqual(first);
  await machine.advance('2h');
  expect(clock.now()).toBe(machine.now());
});

it('jumps immediately after a step of more than a day', async () => {
  const machine = new FakeClock();
  const clock = open(machine);
  share(clock);
  const monotonic = clock.monotonic();
  await machine.setForward('2d');
  expect(clock.now()).toBe(machine.now());
  await machine.setBack('9d');
  expect(clock.now()).toBe(machine.now());
  expect(clock.wasSetBack).toBe(true);
  expect(clock.monotonic()).toBe(monotonic);
  expect(clock.hasUnsharedPlan).toBe(false);
});

it('adds suspended time immediately', async () => {
  const machine = new FakeClock();
  let suspendedMs = 1_000;
  const clock = open(machine, undefined, () => suspendedMs);
  share(clock);
  suspendedMs += 8 * hourMs;
  await machine.setForward('8h');
  expect(clock.now()).toBe(machine.now());
  expect(clock.hasUnsharedPlan).toBe(false);
});

it('ignores the plan of another boot', () => {
  const clock = new FakeClock();
  const plan = { boot: 'b', sinceMs: 0, aheadMs: 0, targetMs: 5 * hourMs, suspendedMs: 0 };
  expect(open(clock, plan).now()).toBe(clock.now());
  expect(open(clock, plan).hasUnsharedPlan).toBe(true);
});

it('gives the same time as a process that has not detected a step yet', async () => {
  const machine = new FakeClock();
  const first = open(machine);
  const plan = share(first);
  await machine.setForward('1h');
  const second = open(machine, plan);
  const now = second.now();
  expect(now).toBe(machine.now() - hourMs);
  expect(first.now()).toBe(now);
  expect(second.hasUnsharedPlan).toBe(true);
});

it('gives the same time as a process whose monotonic clock has another origin', async () => {
  const machine = new FakeClock();
  const first = open(machine);
  let plan = share(first);
  await machine.setBack('1h');
  plan = share(first, plan);
  const startedLater = {
    now: () => machine.now(),
    monotonic: () => machine.monotonic() - 5_000,
    setTimer: (delayMs: number, callback: () => void) => machine.setTimer(delayMs, callback),
  };
  const other = { clock: startedLater, boot: 'a', aheadMs: 5_000, suspendedMs: () => 0 };
  const second = new StoreClock(other, plan);
  for (let hour = 0; hour < 25; hour++) {
    expect(second.now()).toBe(first.now());
    await machine.advance('1h');
  }
});
