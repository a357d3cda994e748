import { Perdure, type Client } from 'perdure';
import {
  check,
  median,
  percentile,
  runInLanes,
  type BenchmarkSetup,
  type Figures,
} from '../benchmark.ts';
import { definitions, family, hello, steps, waiter } from '../definitions.ts';
import {
  batchTimes,
  collector,
  empty,
  eventsPerBatch,
  growthDefinitions,
  long,
  unregistered,
} from '../growth-definitions.ts';
import { highestKey, multiplyRows } from '../multiply-rows.ts';
import { providerOf, unsynced } from '../store-kind.ts';

const worker = {
  ...growthDefinitions,
  orchestrations: [...definitions.orchestrations, ...growthDefinitions.orchestrations],
  activities: [...definitions.activities, ...growthDefinitions.activities],
};
const realCount = 1_000;

/** Sizes of a grown store. */
interface Sizes {
  readonly finished: number;
  readonly parked: number;
  readonly queued: number;
  readonly events: number;
  readonly children: number;
  readonly buffered: number;
}

const full: Sizes = {
  finished: 1_000_000,
  parked: 150_000,
  queued: 150_000,
  events: 100_000,
  children: 10_000,
  buffered: 100_000,
};

/** Compares the rates of a large store with those of an empty one, and of a large instance with a small one. */
export async function growth({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const share = quick ? 50 : 1;
  const sizes = Object.fromEntries(
    Object.entries(full).map(([name, size]) => [name, size / share]),
  ) as unknown as Sizes;
  await fillStore(store, sizes);
  const isSqlite = providerOf(store) === 'sqlite';
  await using grown = await Perdure.open(store);
  await using fresh = await Perdure.open(
    isSqlite ? `${store}-fresh.db` : store,
    isSqlite ? {} : { schema: 'fresh' },
  );
  await grown.startWorker(worker);
  await fresh.startWorker(worker);
  const lists = await listTimes(grown.client);
  const instances = {
    ...(await growHistory(grown.client, sizes.events)),
    ...(await growFamily(grown.client, sizes.children)),
    ...(await growBuffer(grown.client, sizes.buffered)),
  };
  return { ...(await compareRates(grown.client, fresh.client, quick)), ...lists, ...instances };
}

/** Runs a thousand instances of each kind and copies their rows. */
async function fillStore(store: string, { finished, parked, queued }: Sizes): Promise<void> {
  const fill = async (count: number, run: (client: Client) => Promise<unknown>): Promise<void> => {
    const above = await highestKey(store);
    {
      await using perdure = await Perdure.open(store, unsynced(store));
      const started = await perdure.startWorker(definitions);
      await runInLanes(realCount, 64, async () => void (await run(perdure.client)));
      await started.drain({ maxMs: 600_000 });
    }
    await multiplyRows(store, above, Math.round(count / realCount) - 1);
  };
  await (await Perdure.open(store)).close();
  await fill(finished, async (client) => (await client.start(hello, 'World')).result());
  await fill(parked, (client) => client.start(waiter, 'World'));
  await fill(queued, (client) => client.start(unregistered));
}

/** The rates of hellos, tasks and steps, in alternating rounds: of the large store against the empty one. */
async function compareRates(grown: Client, fresh: Client, quick: boolean): Promise<Figures> {
  const seconds = quick ? 0.3 : 1;
  const works: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
    hello: async (client) => {
      check((await (await client.start(hello, 'World')).result()) === 'Hello, World!', 'hello');
    },
    task: async (client) => (await client.runTask(empty)).result(),
    steps: async (client) => (await client.start(steps, 10)).result(),
  };
  const figures: Record<string, number> = {};
  for (const [name, work] of Object.entries(works)) {
    await rate(grown, work, seconds * 3);
    await rate(fresh, work, seconds * 3);
    const ratios: number[] = [];
    for (let round = 0; round < 7; round += 1) {
      const [first, second] = round % 2 === 0 ? [grown, fresh] : [fresh, grown];
      const one = await rate(first, work, seconds);
      const other = await rate(second, work, seconds);
      ratios.push(first === grown ? one / other : other / one);
    }
    figures[`${name}Ratio`] = median(ratios);
  }
  return figures;
}

async function rate(
  client: Client,
  work: (client: Client) => Promise<unknown>,
  seconds: number,
): Promise<number> {
  const begun = performance.now();
  let done = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() - begun < seconds * 1_000) {
      await work(client);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: 64 }, lane));
  return (done * 1_000) / (performance.now() - begun);
}

/** The slowest first page of some filters. The case `lists` has all. */
async function listTimes(client: Client): Promise<Figures> {
  const now = Date.now();
  const filters = [
    {},
    { status: 'failed' },
    { name: 'hello', status: 'failed' },
    { status: 'running' },
    { name: 'unregistered' },
    { createdFrom: now - 10_000 },
    { createdBefore: now },
  ] as const;
  const times: number[] = [];
  for (const filter of filters) {
    await client.list(filter);
    const own: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      const begun = performance.now();
      await client.list(filter);
      own.push(performance.now() - begun);
    }
    times.push(median(own));
  }
  return { listMs: percentile(times, 1) };
}

/** The time per batch at the end of a history, against the start. */
async function growHistory(client: Client, events: number): Promise<Figures> {
  const batches = Math.round(events / eventsPerBatch);
  await (await client.start(long, batches / 5)).result();
  batchTimes.length = 0;
  const begun = performance.now();
  await (await client.start(long, batches)).result();
  return { historyMs: performance.now() - begun, historyRatio: lateness(batchTimes) };
}

/** The median interval of the last fifth against that of the first fifth. */
function lateness(times: readonly number[]): number {
  const intervals = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  const fifth = Math.floor(intervals.length / 5);
  return median(intervals.slice(-fifth)) / median(intervals.slice(0, fifth));
}

/** The time per child of a large family, against ten small ones. */
async function growFamily(client: Client, children: number): Promise<Figures> {
  const run = async (count: number): Promise<number> => {
    const begun = performance.now();
    check((await (await client.start(family, count)).result()) === count, 'family');
    return performance.now() - begun;
  };
  await run(children / 10);
  const ratios: number[] = [];
  let largeMs = 0;
  for (let round = 0; round < 3; round += 1) {
    let smallMs = 0;
    for (let n = 0; n < 10; n += 1) smallMs += await run(children / 10);
    largeMs = await run(children);
    ratios.push(largeMs / smallMs);
  }
  return { childrenMs: largeMs, childrenRatio: median(ratios) };
}

const collectors = 200;

/** The time to buffer events of many instances at the end, against the start, and to receive all of them. */
async function growBuffer(client: Client, count: number): Promise<Figures> {
  const each = count / collectors;
  const handles = await Promise.all(
    Array.from({ length: collectors }, () => client.start(collector, each)),
  );
  const times: number[] = [];
  let raised = 0;
  await runInLanes(count, 64, async () => {
    const handle = handles[raised % collectors];
    raised += 1;
    await handle?.raiseEvent('item', raised);
    if (raised % 100 === 0) times.push(performance.now());
  });
  const begun = performance.now();
  await Promise.all(handles.map((handle) => handle.raiseEvent('go')));
  for (const handle of handles) check((await handle.result()) === each, 'collector');
  return { receiveMs: performance.now() - begun, bufferRatio: lateness(times) };
}
