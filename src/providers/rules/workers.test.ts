import { describe, expect, it } from 'vitest';
import { canRun, definitionsOf, isLiveWorker, liveWorkers } from './workers.ts';

const heartbeatMs = 10_000;

describe('isLiveWorker()', () => {
  const seen = { lastSeenAt: 1_000_000, heartbeatMs, diedAt: null };

  it('is true for three heartbeats after the last one, and false after', () => {
    expect(isLiveWorker(seen, 1_000_000)).toBe(true);
    expect(isLiveWorker(seen, 1_030_000)).toBe(true);
    expect(isLiveWorker(seen, 1_030_001)).toBe(false);
  });

  it('is true for a heartbeat that is newer than the time of the read', () => {
    expect(isLiveWorker(seen, 999_000)).toBe(true);
  });

  it('uses the heartbeat of the worker', () => {
    expect(isLiveWorker({ ...seen, heartbeatMs: 60_000 }, 1_180_000)).toBe(true);
    expect(isLiveWorker({ ...seen, heartbeatMs: 100 }, 1_000_301)).toBe(false);
  });

  it('is false for a worker whose process died, however recent its heartbeat', () => {
    expect(isLiveWorker({ ...seen, diedAt: 1_000_000 }, 1_000_000)).toBe(false);
  });
});

describe('canRun()', () => {
  const workers = [
    { orchestrations: [{ name: 'order', version: '1' }], activities: ['ship'], tasks: [] },
    { orchestrations: [{ name: 'order', version: '2' }], activities: [], tasks: ['mail'] },
  ];
  const wanted = (
    kind: 'orchestration' | 'activity' | 'task',
    name: string,
    version: string | null = null,
  ) => canRun(workers, { kind, name, version });

  it('requires the exact version of an orchestration, or any if none is chosen', () => {
    expect(wanted('orchestration', 'order', '1')).toBe(true);
    expect(wanted('orchestration', 'order', '3')).toBe(false);
    expect(wanted('orchestration', 'order')).toBe(true);
    expect(wanted('orchestration', 'refund')).toBe(false);
  });

  it('keeps activities, tasks and orchestrations of one name apart', () => {
    expect(wanted('activity', 'ship')).toBe(true);
    expect(wanted('task', 'ship')).toBe(false);
    expect(wanted('task', 'mail')).toBe(true);
    expect(wanted('activity', 'mail')).toBe(false);
    expect(wanted('activity', 'order')).toBe(false);
  });

  it('is false without workers', () => {
    expect(canRun([], { kind: 'task', name: 'mail', version: null })).toBe(false);
  });

  it('agrees with definitionsOf() for every definition', () => {
    const { runnable, activities, tasks } = definitionsOf(workers);
    for (const one of runnable)
      expect(canRun(workers, { kind: 'orchestration', ...one })).toBe(true);
    for (const name of activities) expect(wanted('activity', name)).toBe(true);
    for (const name of tasks) expect(wanted('task', name)).toBe(true);
  });
});

it('definitionsOf() returns each definition once, and each orchestration without a version', () => {
  const worker = {
    orchestrations: [
      { name: 'order', version: '1' },
      { name: 'order', version: '2' },
    ],
    activities: ['ship'],
    tasks: ['mail'],
  };
  expect(definitionsOf([worker, worker])).toEqual({
    runnable: [
      { name: 'order', version: null },
      { name: 'order', version: '1' },
      { name: 'order', version: '2' },
    ],
    activities: ['ship', 'task:mail'],
    tasks: ['mail'],
  });
});

it('liveWorkers() omits stale workers', () => {
  const worker = {
    workerId: 'a',
    processId: null,
    name: 'a',
    host: 'h',
    pid: 1,
    buildId: 'b',
    orchestrations: [],
    activities: [],
    tasks: [],
    slots: { activities: 1, orchestrations: 1, inUse: 0 },
    leaked: 0,
    startedAt: 0,
    lastSeenAt: 0,
    heartbeatMs,
    diedAt: null,
    attemptLimits: [],
  };
  const stale = { ...worker, workerId: 'b', lastSeenAt: -30_001 };
  expect(liveWorkers({ nowMs: 0, workers: [worker, stale] })).toEqual([worker]);
});
