import Database from 'better-sqlite3';
import { afterEach, expect, it, vi } from 'vitest';
import { activity, orchestration, Perdure } from '../../src/index.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const marker = 'payload-marker';
const large = { marker, text: 'x'.repeat(10_000) };
const copy = activity('copy', (_ctx, value: unknown) => value);
const echo = orchestration('echo', (ctx, value: unknown) => ctx.call(copy, value));
const failing = orchestration('failing', async (ctx, value: unknown) => {
  await ctx.call(copy, value);
  throw new Error('as expected');
});
const edit = activity('edit', (_ctx, value: object) => ({ ...value, edited: true }));
const rewrite = orchestration('rewrite', (ctx, value: unknown) => ctx.call(edit, value as object));
const sign = activity('sign', (_ctx, value: { trace: string[] }) => {
  value.trace.push('activity');
  return value;
});
const changing = orchestration('changing', async (ctx, value: object) => {
  const traced = Object.assign(value, { trace: ['orchestration'] });
  const result = await ctx.call(sign, traced);
  result.trace.push('end');
  return result;
});
const definitions = {
  orchestrations: [echo, failing, rewrite, changing],
  activities: [copy, edit, sign],
};
let texts = 0;

/** A large text that no other hello has. */
function newText(): string {
  texts += 1;
  return `${texts}${'x'.repeat(10_000)}`;
}

afterEach(() => {
  vi.restoreAllMocks();
});

async function openPerdure() {
  const { path } = temporaryStore();
  const perdure = await Perdure.open(path);
  const query = <Row>(sql: string): Row[] => {
    const db = new Database(path, { readonly: true });
    try {
      return db.prepare<[], Row>(sql).all();
    } finally {
      db.close();
    }
  };
  const countRows = (table: string): number =>
    query<{ count: number }>(`SELECT count(*) AS count FROM ${table}`)[0]?.count ?? -1;
  /** The number of values in all tables that contain the marker. */
  const countCopies = (): number =>
    query<{ name: string }>(`SELECT name FROM sqlite_schema WHERE type = 'table'`)
      .flatMap(({ name }) => query<Record<string, unknown>>(`SELECT * FROM ${name}`))
      .flatMap((row) => Object.values(row))
      .filter((value) => typeof value === 'string' && value.includes(marker)).length;
  return { perdure, query, countRows, countCopies };
}

it('a hello stores an object of 10 KB once as input and once as result', async () => {
  const { perdure, countCopies } = await openPerdure();
  await perdure.startWorker(definitions);
  const handle = await perdure.client.start(echo, large);
  expect(await handle.result()).toEqual(large);
  expect(countCopies()).toBe(2);
  expect(await perdure.client.handle(handle.id).result()).toEqual(large);
  const { events } = await perdure.client.exportHistory(handle.id);
  expect(events.filter((event) => JSON.stringify(event).includes(marker))).toHaveLength(4);
  await perdure.close();
});

it('a hello that returns its input unchanged stringifies it once', async () => {
  expect(await countConversions(echo)).toEqual([0, 1]);
});

it('a hello that changes its payload stringifies the input and the result once', async () => {
  expect(await countConversions(rewrite)).toEqual([0, 2]);
});

it('a hello whose code changes each value stores each of them', async () => {
  const { perdure } = await openPerdure();
  await perdure.startWorker(definitions);
  const handle = await perdure.client.start(changing, { text: newText() });
  expect(await handle.result()).toMatchObject({ trace: ['orchestration', 'activity', 'end'] });
  const { events } = await perdure.client.exportHistory(handle.id);
  const traces = events.map((event) => /"trace\\*":\[[^\]]*\]/.exec(JSON.stringify(event))?.[0]);
  expect(traces.map((trace) => trace?.split(',').length)).toEqual([undefined, 1, 2, 3]);
  await perdure.close();
});

/** Runs a hello with a new object. Returns how often its texts were parsed and stringified. */
async function countConversions(definition: typeof echo): Promise<[number, number]> {
  const { perdure } = await openPerdure();
  await perdure.startWorker(definitions);
  const parse = vi.spyOn(JSON, 'parse');
  const stringify = vi.spyOn(JSON, 'stringify');
  const handle = await perdure.client.start(definition, { marker, text: newText() });
  await handle.result();
  const parsed = parse.mock.calls.filter(([text]) => text.includes(marker));
  const stringified = stringify.mock.results.filter(
    ({ value }) => typeof value === 'string' && value.includes(marker),
  );
  await perdure.close();
  return [parsed.length, stringified.length];
}

it('an activity that another worker claims gets its large input', async () => {
  const { perdure, query } = await openPerdure();
  const worker = await perdure.startWorker({ orchestrations: [echo] });
  const handle = await perdure.client.start(echo, large);
  await vi.waitFor(() => {
    expect(query('SELECT payload, payload_event FROM worker_queue')).toEqual([
      { payload: null, payload_event: 1 },
    ]);
  });
  await worker.stop();
  await perdure.startWorker(definitions);
  expect(await handle.result()).toEqual(large);
  await perdure.close();
});

it('a retried and a forked instance have the large payloads of the events they keep', async () => {
  const { perdure } = await openPerdure();
  await perdure.startWorker(definitions);
  const handle = await perdure.client.start(failing, large);
  await expect(handle.result()).rejects.toThrow('as expected');
  await handle.retry({ from: 'failure' });
  await expect(handle.result()).rejects.toThrow('as expected');
  const fork = await perdure.client.fork(handle.id, { from: 3 });
  await expect(fork.result()).rejects.toThrow('as expected');
  const { events } = await perdure.client.exportHistory(fork.id);
  expect(events.filter((event) => JSON.stringify(event).includes(marker))).toHaveLength(3);
  await perdure.close();
});

it('a deleted instance leaves no large payload', async () => {
  const { perdure, countRows } = await openPerdure();
  await perdure.startWorker(definitions);
  const handle = await perdure.client.start(echo, large);
  await handle.result();
  expect(countRows('large_payloads')).toBe(2);
  await perdure.client.deleteInstance(handle.id);
  await vi.waitFor(() => expect(countRows('large_payloads')).toBe(0));
  await perdure.close();
});
