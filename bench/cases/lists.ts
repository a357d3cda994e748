import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { Perdure, type Client } from 'perdure';
import { percentile, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { createListedInstances, idOf } from '../list-rows.ts';

type Filter = NonNullable<Parameters<Client['list']>[0]>;
type Page = NonNullable<Parameters<Client['list']>[1]>;

interface Measured {
  readonly filter: Filter;
  readonly page: 'first' | 'middle' | 'first by end' | 'middle by end';
  readonly p95Ms: number;
  /** Processor time of this process, which does not depend on other programs. */
  readonly cpuP95Ms: number;
  /** Entries of the page. */
  readonly items: number;
  /** Whether the page has a next one although it is not full. */
  readonly isCut: boolean;
}

/** Measures the first and a middle page of every filter and pair of filters, counts, and the event-loop delay. */
export async function listPages({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const count = quick ? 100_000 : 1_000_000;
  const now = Date.now();
  await createListedInstances(store, count, now);
  return await measureLists(store, { count, now, rounds: quick ? 5 : 20 });
}

/** What to measure on which rows. */
interface ListOptions {
  readonly count: number;
  readonly now: number;
  readonly rounds: number;
  /** Measures the first page of each filter only. Default: all pages, and pairs of filters too. */
  readonly only?: 'first pages';
}

/** Measures lists on a store that `createListedInstances` has filled. */
export async function measureLists(
  store: string,
  { count, now, rounds, only }: ListOptions,
): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  const { client } = perdure;
  const middle = Math.floor(count / 2).toString(36);
  const allPages: readonly (readonly [Measured['page'], Page])[] = [
    ['first', {}],
    ['middle', { cursor: `k${middle}` }],
    ['first by end', { orderBy: 'ended' }],
    [
      'middle by end',
      { orderBy: 'ended', cursor: `e${Math.floor(now - count / 2).toString(36)}k${middle}` },
    ],
  ];
  const conditions = conditionsOf(now, count);
  const pages = only === undefined ? allPages : allPages.slice(0, 1);
  const filters = only === undefined ? pairsOf(conditions) : [{}, ...conditions];
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const all: Measured[] = [];
  const times: number[] = [];
  // The first query after the store is filled reads its pages from the disk.
  for (const filter of [{}, ...conditions]) await client.list(filter);
  delay.enable();
  for (const filter of filters) {
    for (const [page, options] of pages) {
      const durations: number[] = [];
      const cpuTimes: number[] = [];
      let found = await client.list(filter, options);
      for (let round = 0; round < rounds; round += 1) {
        const begun = performance.now();
        const used = process.cpuUsage();
        found = await client.list(filter, options);
        durations.push(performance.now() - begun);
        const { user, system } = process.cpuUsage(used);
        cpuTimes.push((user + system) / 1_000);
        // Lets the monitor see the time that the page blocked the event loop.
        await pause(1);
      }
      times.push(...durations);
      const isCut = found.nextCursor !== undefined && found.items.length < 100;
      const p95Ms = percentile(durations, 0.95);
      const cpuP95Ms = percentile(cpuTimes, 0.95);
      all.push({ filter, page, p95Ms, cpuP95Ms, items: found.items.length, isCut });
    }
  }
  const countTimes: number[] = [];
  for (const filter of [{}, ...conditions]) {
    const begun = performance.now();
    await client.count(filter);
    countTimes.push(performance.now() - begun);
    await pause(1);
  }
  const listed = performance.now();
  await client.definitions();
  const definitionsMs = performance.now() - listed;
  await pause(1);
  delay.disable();
  const slowest = all.toSorted((a, b) => b.p95Ms - a.p95Ms);
  for (const { filter, page, p95Ms, cpuP95Ms, items } of slowest.slice(0, 20)) {
    const ms = `${p95Ms.toFixed(1)} ms, ${cpuP95Ms.toFixed(1)} ms of CPU`;
    console.error(`${ms}, ${items} entries: ${page} ${JSON.stringify(filter)}`);
  }
  return {
    filters: filters.length,
    pageP50Ms: percentile(times, 0.5),
    pageP95Ms: percentile(times, 0.95),
    slowestP95Ms: slowest[0]?.p95Ms ?? Number.NaN,
    slowestCpuP95Ms: Math.max(...all.map(({ cpuP95Ms }) => cpuP95Ms)),
    above50Ms: all.filter(({ p95Ms }) => p95Ms > 50).length,
    cutPages: all.filter(({ isCut }) => isCut).length,
    emptyCutPages: all.filter(({ isCut, items }) => isCut && items === 0).length,
    longestLoopDelayMs: delay.max / 1e6,
    slowestCountMs: Math.max(...countTimes),
    definitionsMs,
  };
}

/** One condition of each kind: some match many instances, some few, some none. */
function conditionsOf(now: number, count: number): readonly Filter[] {
  const middle = now - count / 2;
  return [
    { status: 'failed' },
    { status: 'completed' },
    { status: ['canceled', 'running'] },
    { kind: 'orchestration' },
    { kind: 'task' },
    { name: ['hello', 'other'] },
    { name: 'rare' },
    { version: '1' },
    { idPrefix: '0' },
    { idPrefix: 'order-' },
    { idPrefix: 'none' },
    { parentId: idOf(count / 2) },
    { rootsOnly: true },
    { createdFrom: now - count / 4 },
    { createdBefore: middle },
    { createdFrom: middle - 1_000, createdBefore: middle },
    { endedFrom: middle },
    { endedBefore: now - (count * 3) / 4 },
    { endedFrom: middle - 1_000, endedBefore: middle },
    { failureCode: 'E7' },
    { failureText: 'number 7' },
    { blocked: true },
    { blocked: false },
    { leaked: true },
    { paused: true },
    { unregistered: true },
    { tags: { tag0: '1' } },
    { tags: { tag1: '0', tag14: '0' } },
  ];
}

function pairsOf(conditions: readonly Filter[]): readonly Filter[] {
  const pairs = conditions.flatMap((one, index) =>
    conditions
      .slice(index + 1)
      .filter((other) => Object.keys(other).every((key) => !(key in one)))
      .map((other) => ({ ...one, ...other })),
  );
  return [{}, ...conditions, ...pairs];
}
