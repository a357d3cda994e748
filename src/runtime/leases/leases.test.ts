import { expect, it } from 'vitest';
import { silentLogger } from '../../model/logger.ts';
import { FakeClock } from '../../testing/fake-clock.ts';
import { Leases } from './leases.ts';

interface TestLease {
  readonly lockToken: string;
  lost: boolean;
  onLost(): void;
}

function lease(lockToken: string): TestLease {
  return {
    lockToken,
    lost: false,
    onLost() {
      this.lost = true;
    },
  };
}

function setUp(renew: (tokens: string[]) => Promise<boolean[]>) {
  const clock = new FakeClock();
  const leases = new Leases<TestLease>({
    clock,
    leaseMs: 3_000,
    logger: silentLogger,
    renew: (held) => renew(held.map(({ lockToken }) => lockToken)),
  });
  return { clock, leases };
}

it('Leases renews all claims in one batch at a third of the lease', async () => {
  const calls: string[][] = [];
  const { clock, leases } = setUp(async (tokens) => {
    calls.push(tokens);
    return tokens.map(() => true);
  });
  leases.add(lease('a'), clock.monotonic());
  leases.add(lease('b'), clock.monotonic());
  await clock.advance(999);
  expect(calls).toEqual([]);
  await clock.advance(1);
  expect(calls).toEqual([['a', 'b']]);
  leases.remove('a');
  await clock.advance(1_000);
  expect(calls).toEqual([['a', 'b'], ['b']]);
  leases.remove('b');
  await clock.advance(10_000);
  expect(calls.length).toBe(2);
  expect(clock.nextAlarmAt).toBeUndefined();
});

it('a lease that the store no longer has is lost immediately', async () => {
  const { clock, leases } = setUp(async (tokens) => tokens.map((token) => token !== 'gone'));
  const [kept, gone] = [lease('kept'), lease('gone')];
  leases.add(kept, clock.monotonic());
  leases.add(gone, clock.monotonic());
  await clock.advance(1_000);
  expect([kept.lost, gone.lost]).toEqual([false, true]);
  expect(leases.size).toBe(1);
  leases.stop();
});

it('a failing renewal loses the leases only when they expire', async () => {
  const { clock, leases } = setUp(async () => {
    throw new Error('the store is away');
  });
  const held = lease('a');
  leases.add(held, clock.monotonic());
  await clock.advance(2_900);
  expect(held.lost).toBe(false);
  await clock.advance(400);
  expect(held.lost).toBe(true);
  expect(clock.nextAlarmAt).toBeUndefined();
});

it('a renewal without a response loses the lease when it expires', async () => {
  const { clock, leases } = setUp(() => new Promise(() => undefined));
  const held = lease('a');
  leases.add(held, clock.monotonic());
  await clock.advance(2_999);
  expect(held.lost).toBe(false);
  await clock.advance(1);
  expect(held.lost).toBe(true);
  leases.stop();
});

it('a renewal without a response loses each of its leases when that lease expires', async () => {
  const { clock, leases } = setUp(() => new Promise(() => undefined));
  const [first, later] = [lease('first'), lease('later')];
  leases.add(first, clock.monotonic() - 2_500);
  leases.add(later, clock.monotonic());
  await clock.advance(1_000);
  expect([first.lost, later.lost]).toEqual([true, false]);
  await clock.advance(1_999);
  expect(later.lost).toBe(false);
  await clock.advance(1);
  expect(later.lost).toBe(true);
  leases.stop();
});

it('a claim whose response is late is renewed before its lease ends', async () => {
  const calls: string[][] = [];
  const { clock, leases } = setUp((tokens) => {
    calls.push(tokens);
    return Promise.resolve(tokens.map(() => true));
  });
  leases.add(lease('early'), clock.monotonic());
  await clock.advance(100);
  leases.add(lease('late'), clock.monotonic() - 2_900);
  await clock.advance(0);
  expect(calls).toEqual([['late']]);
  leases.stop();
});

it('a claim that is added while a renewal has no response is renewed on time', async () => {
  const calls: string[][] = [];
  const { clock, leases } = setUp((tokens) => {
    calls.push(tokens);
    return tokens.includes('stuck')
      ? new Promise(() => undefined)
      : Promise.resolve(tokens.map(() => true));
  });
  const [stuck, later] = [lease('stuck'), lease('later')];
  leases.add(stuck, clock.monotonic());
  await clock.advance(1_500);
  leases.add(later, clock.monotonic());
  await clock.advance(1_499);
  expect(calls).toEqual([['stuck'], ['later']]);
  await clock.advance(3_001);
  expect([stuck.lost, later.lost]).toEqual([true, false]);
  leases.stop();
});

it('a claim that is added while a renewal has no response is lost when it expires', async () => {
  const { clock, leases } = setUp(() => new Promise(() => undefined));
  const [first, later] = [lease('first'), lease('later')];
  leases.add(first, clock.monotonic());
  await clock.advance(2_900);
  leases.add(later, clock.monotonic());
  await clock.advance(2_999);
  expect([first.lost, later.lost]).toEqual([true, false]);
  await clock.advance(1);
  expect(later.lost).toBe(true);
  leases.stop();
});

it('a hint that arrives before its claim renews the claim when it is added', async () => {
  const calls: string[][] = [];
  const { clock, leases } = setUp(async (tokens) => {
    calls.push(tokens);
    return tokens.map(() => true);
  });
  await leases.renewNow(['early']);
  expect(calls).toEqual([]);
  leases.add(lease('early'), clock.monotonic());
  leases.add(lease('other'), clock.monotonic());
  expect(calls).toEqual([['early']]);
  leases.stop();
});
