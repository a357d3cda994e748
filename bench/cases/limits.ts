import { Perdure, task, type Provider } from 'perdure';
import { check, percentile, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { openProvider, unsynced } from '../store-kind.ts';

const handler = (): void => undefined;
const keyCount = 1_000;
// The same concurrency as the case of tasks without limits.
const activityConcurrency = 500;

const unlimited = task('unlimited', handler);
type LimitedTask = typeof unlimited;
const globally = task('globally', handler, { concurrency: { global: 100 } });
const perKey = task('perKey', handler, { concurrency: { perKey: 1 } });
/** A rate that admits all: the cost of counting starts. */
const highRate = task('highRate', handler, { rate: { limit: 1_000_000, per: 1_000 } });
/** A rate that decides: how close the starts come to it. */
const lowRate = task('lowRate', handler, { rate: { limit: 1_000, per: 1_000 } });

/** Empty tasks without limits and with each kind of limit, enqueued in batches and then run by a worker. */
export async function limitedTasks({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  const count = quick ? 2_000 : 10_000;
  const figures: Record<string, number> = {};
  for (const [name, limited, keys] of [
    ['unlimited', unlimited, 0],
    ['global100', globally, 0],
    ['perKey1', perKey, keyCount],
    ['highRate', highRate, 0],
  ] as const) {
    await enqueueAndRun(perdure, limited, count, keys);
    const { enqueueSeconds, runSeconds } = await enqueueAndRun(perdure, limited, count, keys);
    figures[`${name}EnqueuedPerSecond`] = count / enqueueSeconds;
    figures[`${name}RanPerSecond`] = count / runSeconds;
  }
  const { runSeconds } = await enqueueAndRun(perdure, lowRate, 2_000, 0);
  return { ...figures, rateOf1000RanPerSecond: 2_000 / runSeconds };
}

async function enqueueAndRun(
  perdure: Perdure,
  limited: LimitedTask,
  count: number,
  keys: number,
): Promise<{ readonly enqueueSeconds: number; readonly runSeconds: number }> {
  const begun = performance.now();
  await enqueue(perdure, limited, count, keys);
  const enqueued = performance.now();
  const { promise: allEnded, resolve } = Promise.withResolvers<void>();
  let ended = 0;
  const taskEnded = ({ status }: { readonly status: string }): void => {
    check(status === 'completed', 'a task');
    ended += 1;
    if (ended === count) resolve();
  };
  const worker = await perdure.startWorker({
    tasks: [limited],
    activityConcurrency,
    hooks: { taskEnded },
  });
  await allEnded;
  const done = performance.now();
  await worker.stop();
  return { enqueueSeconds: (enqueued - begun) / 1_000, runSeconds: (done - enqueued) / 1_000 };
}

/** Enqueues runs in requests of 10,000. With `keys`, they have that many keys in turn. */
async function enqueue(
  perdure: Perdure,
  limited: LimitedTask,
  count: number,
  keys: number,
): Promise<void> {
  const perRequest = 10_000;
  for (let done = 0; done < count; done += perRequest) {
    const requests = Array.from({ length: Math.min(perRequest, count - done) }, (_, n) => ({
      task: limited,
      ...(keys > 0 && { options: { key: `key ${(done + n) % keys}` } }),
    }));
    await perdure.client.runTasks(requests);
  }
}

const parked = task('parked', handler, { concurrency: { global: 100, perKey: 1 } });
const parkedInOneKey = task('parkedInOneKey', handler, { concurrency: { global: 100 } });
const perClaim = 10;

/**
 * A claim of ten runs while many wait, and the ack that frees their places: over many keys, and in one key. The first claims,
 * which also read the new keys on PostgreSQL, are a separate figure.
 */
export async function limitedClaims({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const backlog = quick ? 30_000 : 300_000;
  const keys = backlog / 3;
  const shallow = await claimFrom(store, unlimited, 5_000, 0);
  const manyKeys = await claimFrom(store, parked, backlog, keys);
  const oneKey = await claimFrom(store, parkedInOneKey, backlog, 1);
  return {
    backlog,
    keys,
    unlimitedP50Ms: shallow.p50Ms,
    unlimitedP99Ms: shallow.p99Ms,
    manyKeysP50Ms: manyKeys.p50Ms,
    manyKeysP99Ms: manyKeys.p99Ms,
    manyKeysFirstClaimsSeconds: manyKeys.firstClaimsSeconds,
    oneKeyP50Ms: oneKey.p50Ms,
    oneKeyP99Ms: oneKey.p99Ms,
    oneKeyFirstClaimsSeconds: oneKey.firstClaimsSeconds,
  };
}

interface ClaimTimes {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly firstClaimsSeconds: number;
}

async function claimFrom(
  store: string,
  limited: LimitedTask,
  count: number,
  keys: number,
): Promise<ClaimTimes> {
  await using perdure = await Perdure.open(store, unsynced(store));
  // Declares the limits.
  await (await perdure.startWorker({ tasks: [limited] })).stop();
  await enqueue(perdure, limited, count, keys);
  const provider = await openProvider(store);
  const begun = performance.now();
  // On PostgreSQL, claims read the signals of new runs in slices, and places that are freed meanwhile wait for them.
  for (let claims = 0; claims < count / 1_000; claims++) await claim(provider, limited.name);
  const firstClaimsSeconds = (performance.now() - begun) / 1_000;
  const times: number[] = [];
  for (let claims = 0; claims < 300; claims++) {
    const { ms, items } = await claim(provider, limited.name);
    check(items === perClaim, 'a claim');
    times.push(ms);
  }
  await provider.close();
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99), firstClaimsSeconds };
}

/** Claims runs and acks them. Only the claim is timed. */
async function claim(
  provider: Provider,
  name: string,
): Promise<{ readonly ms: number; readonly items: number }> {
  const begun = performance.now();
  const claimed = await provider.fetchWorkItems({
    max: perClaim,
    lockMs: 60_000,
    waitMs: 0,
    names: [],
    tasks: [name],
  });
  const ms = performance.now() - begun;
  const outcome = { kind: 'completed', payload: '1' } as const;
  await provider.ackWorkItems(claimed.map(({ lockToken }) => ({ lockToken, outcome })));
  return { ms, items: claimed.length };
}
