import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/model/clock.ts';
import { Effects } from '../../src/providers/shared/effects.ts';
import { resolveOptions } from '../../src/providers/postgres/driver/options.ts';
import { WakeUps, type PolledTimes } from '../../src/providers/postgres/wakeups/wake-ups.ts';
import type { Hint } from '../../src/providers/contract/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { createDatabase, type TestDatabase } from './helpers/server.ts';
import { startTcpProxy, type TcpProxy } from './helpers/tcp-proxy.ts';

const channel = 'perdure_test';
const nothing: PolledTimes = {
  now: 0,
  nextAt: { orchestrations: Infinity, work: Infinity },
  nextScheduleAt: Infinity,
  flagged: [],
};

let database: TestDatabase;
let proxy: TcpProxy;
let opened: WakeUps[];

beforeAll(async () => {
  database = await createDatabase();
  proxy = await startTcpProxy(database.url);
});

afterAll(async () => {
  await proxy.close();
  await database.drop();
});

beforeEach(() => {
  opened = [];
});

afterEach(async () => {
  await Promise.all(opened.map((wakeUps) => wakeUps.close()));
});

interface Parts {
  readonly answerMs?: number;
  readonly listen?: boolean;
  readonly pollMs?: number;
  readonly query?: (since: number) => Promise<PolledTimes>;
}

/** The wake-ups of one process, and the hints that they emit. */
async function open({ listen = true, pollMs = 60_000, query, answerMs = 0 }: Parts = {}) {
  const { connection } = resolveOptions({ url: proxy.url });
  const wakeUps = new WakeUps({
    isWanted: () => true,
    clock: systemClock,
    pollMs,
    query: query ?? (() => Promise.resolve(nothing)),
    notifications: listen ? { ...connection, channel, answerMs } : undefined,
  });
  opened.push(wakeUps);
  await wakeUps.start();
  const hints: Hint[] = [];
  return { wakeUps, hints, listen: () => wakeUps.listen((hint) => hints.push(hint)) };
}

/** Two processes that have discovered each other. */
async function openTwo() {
  const first = await open();
  const second = await open();
  first.listen();
  second.listen();
  await eventually(() => {
    first.wakeUps.announce(effects({ finished: ['ping'] }));
    second.wakeUps.announce(effects({ finished: ['pong'] }));
    expect(second.hints.some(isEnd('ping'))).toBe(true);
    expect(first.hints.some(isEnd('pong'))).toBe(true);
  });
  return { first, second };
}

const isEnd = (id: string) => (hint: Hint) =>
  hint.kind === 'finished' && hint.instanceIds.includes(id);

function effects(parts: {
  readonly finished?: readonly string[];
  readonly cancelRequested?: readonly string[];
  readonly workAt?: number;
}): Effects {
  const sum = new Effects();
  sum.finished.push(...(parts.finished ?? []));
  sum.cancelRequested.push(...(parts.cancelRequested ?? []));
  if (parts.workAt !== undefined) sum.due('work', parts.workAt);
  return sum;
}

/** Waits long enough for a machine under load. */
function eventually(holds: () => void): Promise<void> {
  return vi.waitFor(holds, { timeout: 15_000, interval: 10 });
}

const untilLate = () => ({ waitMs: 600_000, until: systemClock.now() + 600_000 });

describe('WakeUps with notifications', () => {
  it('announce() notifies other processes of ended instances and cancel requests', async () => {
    const { first, second } = await openTwo();
    first.wakeUps.announce(effects({ finished: ['a\0'], cancelRequested: ['1.x', '2.y'] }));
    await eventually(() => {
      expect(second.hints.some(isEnd('a\0'))).toBe(true);
      expect(second.hints).toContainEqual({
        kind: 'cancelRequested',
        lockTokens: ['1.x', '2.y'],
      });
    });
  });

  it('announce() of due work ends a wait for work and no other', async () => {
    const { first, second } = await openTwo();
    const others = new AbortController();
    let othersWoke = false;
    void second.wakeUps
      .wait({ topic: 'orchestrations', ...untilLate(), signal: others.signal })
      .then(() => (othersWoke = true));
    const waiting = second.wakeUps.wait({ topic: 'work', ...untilLate() });
    first.wakeUps.announce(effects({ workAt: systemClock.now() }));
    await waiting;
    expect(othersWoke).toBe(false);
    others.abort();
  });

  it('announce() delivers 2,000 cancel requests to another process', async () => {
    const { first, second } = await openTwo();
    const tokens = Array.from({ length: 2_000 }, (_, i) => `${i}.${'x'.repeat(22)}`);
    first.wakeUps.announce(effects({ cancelRequested: tokens }));
    await eventually(() => {
      const delivered = second.hints.flatMap((hint) =>
        hint.kind === 'cancelRequested' ? hint.lockTokens : [],
      );
      expect(delivered).toEqual(tokens);
    });
  });

  it('a cut connection ends waits and emits changed, and notifications resume', async () => {
    const { first, second } = await openTwo();
    const waiting = second.wakeUps.wait({ topic: 'work', ...untilLate() });
    second.hints.length = 0;
    proxy.cut();
    await waiting;
    await eventually(() => expect(second.hints).toContainEqual({ kind: 'changed' }));
    await eventually(() => {
      first.wakeUps.announce(effects({ finished: ['after'] }));
      expect(second.hints.some(isEnd('after'))).toBe(true);
    });
  });

  it('announce() reaches other processes before they answer the hello', async () => {
    const first = await open();
    first.listen();
    const second = await open({ answerMs: 60_000 });
    second.wakeUps.announce(effects({ finished: ['at once'] }));
    await eventually(() => expect(first.hints.some(isEnd('at once'))).toBe(true));
  });

  it('announce() reaches other processes after ten minutes without notifications', async () => {
    const { first, second } = await openTwo();
    const now = performance.now.bind(performance);
    const time = vi.spyOn(performance, 'now').mockImplementation(() => now() + 600_000);
    try {
      first.wakeUps.announce(effects({ cancelRequested: ['3.z'] }));
      await eventually(() =>
        expect(second.hints).toContainEqual({ kind: 'cancelRequested', lockTokens: ['3.z'] }),
      );
    } finally {
      // A monotonic clock never steps back: a statement sent after that would wait for ten minutes.
      await Promise.all([first.wakeUps.close(), second.wakeUps.close()]);
      time.mockRestore();
    }
  });

  it('announce() sends nothing while no other process listens', async () => {
    const listener = new pg.Client({ connectionString: database.url });
    await listener.connect();
    try {
      const payloads: string[] = [];
      listener.on('notification', ({ payload = '' }) => payloads.push(payload));
      await listener.query(`LISTEN ${channel}`);
      const alone = await open();
      alone.wakeUps.announce(effects({ finished: ['a'] }));
      await alone.wakeUps.close();
      await listener.query('SELECT 1');
      expect(payloads.map((payload) => (JSON.parse(payload) as { kind: string }).kind)).toEqual([
        'hello',
      ]);
    } finally {
      await listener.end();
    }
  });
});

describe('WakeUps without notifications', () => {
  it('WakeUps polls only while a caller waits or listens', async () => {
    let queries = 0;
    const query = () => {
      queries += 1;
      return Promise.resolve(nothing);
    };
    const { wakeUps, listen } = await open({ listen: false, pollMs: 5, query });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(queries).toBe(0);
    const stop = listen();
    const signal = AbortSignal.timeout(60_000);
    const waits = [1, 2, 3].map(() => wakeUps.wait({ topic: 'work', ...untilLate(), signal }));
    await eventually(() => expect(queries >= 3).toBe(true));
    stop();
    await wakeUps.close();
    await Promise.all(waits);
    const inTheEnd = queries;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(queries).toBe(inTheEnd);
  });

  it('a poll that finds due work ends a wait', async () => {
    const query = () =>
      Promise.resolve({ ...nothing, nextAt: { orchestrations: Infinity, work: 1 } });
    const { wakeUps } = await open({ listen: false, pollMs: 5, query });
    await wakeUps.wait({ topic: 'work', ...untilLate() });
  });

  it('repeated polls emit a cancel request once', async () => {
    let queries = 0;
    const query = () => {
      queries += 1;
      return Promise.resolve({ ...nothing, flagged: queries > 1 ? ['1.x'] : [] });
    };
    const { hints, listen } = await open({ listen: false, pollMs: 5, query });
    listen();
    await eventually(() => expect(queries > 5).toBe(true));
    const known = hints.filter(({ kind }) => kind !== 'missed');
    expect(known).toEqual([{ kind: 'cancelRequested', lockTokens: ['1.x'] }]);
  });

  it('a poll emits changed when a schedule becomes due earlier', async () => {
    const times = [Infinity, 500, 700, 400, 400];
    let queries = 0;
    const query = () => {
      queries += 1;
      return Promise.resolve({ ...nothing, nextScheduleAt: times[queries] ?? 400 });
    };
    const { hints, listen } = await open({ listen: false, pollMs: 5, query });
    listen();
    await eventually(() => expect(queries > 6).toBe(true));
    const known = hints.filter(({ kind }) => kind !== 'missed');
    expect(known).toEqual([{ kind: 'changed' }, { kind: 'changed' }]);
  });

  it('polls emit missed, because notifications from other processes are off', async () => {
    const { hints, listen } = await open({ listen: false, pollMs: 5 });
    listen();
    await eventually(() => expect(hints.length > 2).toBe(true));
    expect(new Set(hints.map(({ kind }) => kind))).toEqual(new Set(['missed']));
  });

  it('a wait continues after two polls that reject', async () => {
    let queries = 0;
    const query = () => {
      queries += 1;
      return queries < 3
        ? Promise.reject(new Error('away'))
        : Promise.resolve({ ...nothing, nextAt: { orchestrations: 1, work: 1 } });
    };
    const { wakeUps } = await open({ listen: false, pollMs: 5, query });
    await wakeUps.wait({ topic: 'work', ...untilLate() });
    expect(queries).toBe(3);
  });

  it('polls query cancel requests of at least the last ten seconds', async () => {
    const asked: number[] = [];
    const query = (since: number) => {
      asked.push(Date.now() - since);
      return Promise.resolve(nothing);
    };
    const { wakeUps } = await open({ listen: false, pollMs: 5, query });
    const stop = wakeUps.listen(() => undefined);
    await expect.poll(() => asked.length, { interval: 5 }).toBeGreaterThan(2);
    stop();
    expect(Math.min(...asked)).toBeGreaterThanOrEqual(10_000);
  });
});

describe('WakeUps in one process', () => {
  it('a change between a query and the wait that follows ends the wait', async () => {
    const { wakeUps } = await open({ listen: false });
    const seen = wakeUps.changes('work');
    wakeUps.announce(effects({ workAt: 1 }));
    await wakeUps.wait({ topic: 'work', ...untilLate(), seen });
  });

  it('restoreIdle() returns the saved snapshot until something changes', async () => {
    const { wakeUps } = await open({ listen: false });
    const nextAt = untilLate().until;
    const aheadMs = systemClock.now() - systemClock.monotonic();
    const snapshot = { topic: 'work', changes: wakeUps.changes('work'), nextAt, aheadMs } as const;
    expect(wakeUps.restoreIdle('names')).toBeUndefined();
    wakeUps.saveIdle('names', snapshot);
    expect(wakeUps.restoreIdle('names')).toMatchObject({ nextAt });
    wakeUps.saveIdle('names', snapshot);
    wakeUps.announce(effects({ workAt: 1 }));
    expect(wakeUps.restoreIdle('names')).toBeUndefined();
  });

  it('close() ends waits and clears alarms', async () => {
    const clock = new FakeClock();
    const wakeUps = new WakeUps({
      clock,
      pollMs: 1_000,
      query: () => Promise.resolve(nothing),
      isWanted: () => true,
    });
    const waiting = wakeUps.wait({ topic: 'work', waitMs: 5_000, until: clock.now() + 5_000 });
    expect(clock.alarmCount).toBe(1);
    await wakeUps.close();
    await waiting;
    await wakeUps.wait({ topic: 'work', waitMs: 5_000, until: clock.now() + 5_000 });
    expect(clock.alarmCount).toBe(0);
  });
});
