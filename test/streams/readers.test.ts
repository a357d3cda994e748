import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import {
  Perdure,
  task,
  type Client,
  type StreamEntry,
  type StreamOptions,
} from '../../src/index.ts';
import { serve } from '../../src/server/serve.ts';
import { engineStores } from '../engine/engine-store.ts';

const isFull = process.env['MODE'] === 'streams';
const total = isFull ? 100_000 : 3_000;
const kibibyte = 1024;

const count = task('count', async (ctx, chunks: number) => {
  for (let from = 0; from < chunks; from += 500) {
    const to = Math.min(from + 500, chunks);
    await Promise.all(Array.from({ length: to - from }, (_, index) => ctx.emit(from + index)));
  }
});

/** Reads a stream to its end, and leaves it once after `leaveAfter` entries, as a page that is reloaded. */
async function readWithReload(
  open: (options: StreamOptions) => AsyncGenerator<StreamEntry, void, undefined>,
  leaveAfter: number,
  pauseMs = 0,
): Promise<readonly StreamEntry[]> {
  const read: StreamEntry[] = [];
  for await (const entry of open({})) {
    read.push(entry);
    if (read.length === leaveAfter) break;
  }
  await delay(pauseMs);
  for await (const entry of open({ after: read.at(-1)?.cursor })) read.push(entry);
  return read;
}

/** Expects each number once and in order, apart from those that a mark replaces. Returns how many are missing. */
function expectSequence(entries: readonly StreamEntry[], length: number): number {
  let next = 0;
  let missing = 0;
  for (const entry of entries) {
    if (entry.kind === 'dropped') {
      next += entry.count;
      missing += entry.count;
      continue;
    }
    // `toBe` for each of 100,000 chunks would take a minute.
    if (entry.value !== next) expect(entry.value).toBe(next);
    next += 1;
  }
  expect(next).toBe(length);
  return missing;
}

describe.each([
  { name: 'SQLite', store: 'SQLite', remote: false },
  { name: 'PostgreSQL', store: 'PostgreSQL', remote: false },
  { name: 'remote', store: 'SQLite', remote: true },
] as const)('three readers ($name)', ({ name, store: kind, remote }) => {
  const newStore = engineStores(kind);
  const cleanups: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
  });

  async function open(streamLimitBytes?: number) {
    const store = await newStore();
    cleanups.push(() => store.remove());
    const provider = await store.open();
    const perdure = await Perdure.open(provider);
    cleanups.push(() => perdure.close());
    await perdure.startWorker({
      tasks: [count],
      ...(streamLimitBytes !== undefined && { streamLimitBytes }),
    });
    let client: Client = perdure.client;
    if (remote) {
      const server = await serve(perdure, { port: 0 });
      cleanups.push(() => server.close());
      const connection = await Perdure.connect(server.url);
      cleanups.push(() => connection.close());
      ({ client } = connection);
    }
    return { client, provider };
  }

  it(
    `read ${total} chunks exactly once each, with a reload each`,
    async () => {
      const { client } = await open();
      const begunAt = performance.now();
      const run = await client.runTask(count, total);
      const stream = (options: StreamOptions) => client.stream(run.id, options);
      const places = [1, Math.floor(total / 3), total - 7];
      const reads = await Promise.all(places.map((place) => readWithReload(stream, place, 20)));
      for (const entries of reads) expect(expectSequence(entries, total)).toBe(0);
      const seconds = (performance.now() - begunAt) / 1_000;
      const figures = `${name}: ${total} chunks, 3 readers: ${seconds.toFixed(1)} s`;
      if (isFull) process.stderr.write(`${figures}\n`);
      // Everything can be read again.
      const again: StreamEntry[] = [];
      for await (const entry of stream({})) again.push(entry);
      expect(expectSequence(again, total)).toBe(0);
    },
    isFull ? 300_000 : 30_000,
  );

  it(
    'a bounded stream keeps its limit, and marks what each reader missed',
    async () => {
      const limit = 64 * kibibyte;
      const { client, provider } = await open(limit);
      const run = await client.runTask(count, total);
      const stream = (options: StreamOptions) => client.stream(run.id, options);
      let largest = 0;
      const over = new AbortController();
      const watching = (async () => {
        while (!over.signal.aborted) {
          const page = await provider.readStream({
            instanceId: run.id,
            after: 0,
            limit: 1e6,
            maxBytes: 1e9,
          });
          const bytes = page?.chunks.reduce((sum, { payload }) => sum + payload.length + 64, 0);
          largest = Math.max(largest, bytes ?? 0);
          await delay(20);
        }
      })();
      const reads = await Promise.all(
        [1, 100, 500].map((place) => readWithReload(stream, place, isFull ? 1_000 : 100)),
      );
      over.abort();
      await watching;
      for (const entries of reads) expectSequence(entries, total);
      const late: StreamEntry[] = [];
      for await (const entry of stream({})) late.push(entry);
      expect(expectSequence(late, total)).toBeGreaterThan(total / 2);
      expect(largest).toBeGreaterThan(limit / 4);
      expect(largest).toBeLessThanOrEqual(limit);
    },
    isFull ? 300_000 : 30_000,
  );
});
