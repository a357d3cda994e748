import { expect, it, onTestFinished, vi } from 'vitest';
import { activity, orchestration, task } from 'perdure';
import { flow } from 'perdure/flows';
import { connect } from 'perdure/remote';
import { LocalClient } from '../../../src/client/local-client.ts';
import type { InstanceRecord } from '../../../src/providers/contract/instances.ts';
import { exchange, headOf, openSocket, readFirst } from '../helpers/raw-socket.ts';
import { codeOf, describeServer, type TestServer } from '../helpers/server-fixture.ts';
import { longPoll, readGauge } from '../helpers/server-load.ts';

const budget = 8 * 1024 * 1024;
// Allowance for the JSON around the payloads of a page.
const frame = 64 * 1024;
const largeLength = 1_900_000;
const large = (n: number): string => `${n}${'y'.repeat(largeLength)}`;

const makeLarge = task('make-large', async (_ctx, n: number) => large(n));
const fetchLarge = activity('fetch-large', async (_ctx, n: number) => large(n));
const collect = orchestration('collect', async (ctx, count: number) => {
  for (let n = 0; n < count; n += 1) await ctx.call(fetchLarge, n);
  return count;
});
const spread = flow('spread')
  .input<readonly number[]>()
  .map('made', { over: ({ input }) => input }, async (_ctx, n) => large(n))
  .output('made');

const chain = flow('chain')
  .input<number>()
  .step('s0', {}, async () => large(0))
  .step('s1', { after: ['s0'] }, async () => large(1))
  .step('s2', { after: ['s1'] }, async () => large(2))
  .step('s3', { after: ['s2'] }, async () => large(3))
  .step('s4', { after: ['s3'] }, async () => large(4))
  .step('s5', { after: ['s4'] }, async () => large(5))
  .step('last', { after: ['s5'] }, async () => 'e')
  .output('last');

const worker = {
  tasks: [makeLarge],
  orchestrations: [collect],
  activities: [fetchLarge],
  flows: [spread, chain],
};

/** Records the output bytes of each read of instances from the store. */
function watchReads({ perdure }: TestServer): () => readonly number[] {
  const { provider } = LocalClient.internals(perdure.client).backend;
  const reads: number[] = [];
  const measure = (records: readonly (InstanceRecord | undefined)[]): void => {
    const bytes = records.map((record) => record?.output?.length ?? 0);
    reads.push(bytes.reduce((sum, one) => sum + one, 0));
  };
  const listInstances = provider.listInstances.bind(provider);
  const getInstances = provider.getInstances.bind(provider);
  const spies = [
    vi.spyOn(provider, 'listInstances').mockImplementation(async (params) => {
      const page = await listInstances(params);
      measure(page.instances);
      return page;
    }),
    vi.spyOn(provider, 'getInstances').mockImplementation(async (...args) => {
      const records = await getInstances(...args);
      measure(records);
      return records;
    }),
  ];
  onTestFinished(() => spies.forEach((spy) => spy.mockRestore()));
  return () => reads;
}

async function runLarge({ perdure }: TestServer, count: number): Promise<readonly string[]> {
  const ids = Array.from({ length: count }, (_, n) => `run-${n}`);
  for (const [n, id] of ids.entries()) {
    await (await perdure.client.runTask(makeLarge, n, { id })).result();
  }
  return ids;
}

describeServer('response limits of a read token', (open) => {
  it('listInstances omits payloads by default; with them a page has at most 8 MiB', async () => {
    const server = await open({ worker });
    const ids = await runLarge(server, 10);
    const reads = watchReads(server);
    const as = { token: server.tokens.read };
    const plain = await server.send('listInstances', { query: { limit: 1_000 } }, as);
    expect(plain.text.length).toBeLessThan(frame);
    expect((plain.json as { items: object[] }).items).toHaveLength(10);
    expect(plain.text).not.toContain('"output"');

    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const query = { limit: 1_000, payloads: true, ...(cursor !== undefined && { cursor }) };
      const page = await server.send('listInstances', { query }, as);
      expect(page.text.length).toBeLessThan(budget + frame);
      const { items, nextCursor } = page.json as Awaited<
        ReturnType<typeof server.perdure.client.list>
      >;
      expect(items.map(({ output }) => String(output).length > largeLength)).not.toContain(false);
      seen.push(...items.map(({ id }) => id));
      cursor = nextCursor;
    } while (cursor !== undefined);
    expect(seen).toEqual(ids.toReversed());
    expect(Math.max(...reads())).toBeLessThanOrEqual(budget);

    await using connection = await connect(server.url, as);
    const remote = connection.client;
    const local = await server.perdure.client.list();
    expect(await remote.list()).toEqual(local);
    expect(local.items[0]).not.toHaveProperty('output');
    const first = await remote.list({}, { payloads: true });
    expect(first).toEqual(await server.perdure.client.list({}, { payloads: true }));
    expect(first.items).toHaveLength(4);
  });

  it('waitForInstances returns at most 8 MiB of results per response', async () => {
    const server = await open({ worker });
    const ids = await runLarge(server, 10);
    const reads = watchReads(server);
    const left = new Set(ids);
    while (left.size > 0) {
      const body = { ids: [...left] };
      const answer = await server.send('waitForInstances', { body }, { token: server.tokens.read });
      expect(answer.text.length).toBeLessThan(budget + frame);
      const { results } = answer.json as { results: { id: string }[] };
      expect(results).not.toEqual([]);
      for (const { id } of results) left.delete(id);
    }
    expect(Math.max(...reads())).toBeLessThanOrEqual(budget);
  });

  it('getHistory returns pages of at most 8 MiB, and exportHistory streams', async () => {
    const server = await open({ worker });
    const { client } = server.perdure;
    await (await client.start(collect, 6, { id: 'c' })).result();
    const { provider } = LocalClient.internals(client).backend;
    const readInstanceHistory = provider.readInstanceHistory.bind(provider);
    const reads: number[] = [];
    const spy = vi.spyOn(provider, 'readInstanceHistory').mockImplementation(async (params) => {
      const events = await readInstanceHistory(params);
      reads.push(events.reduce((sum, { payload }) => sum + (payload?.length ?? 0), 0));
      return events;
    });
    onTestFinished(() => spy.mockRestore());
    const as = { token: server.tokens.read };
    const params = { id: 'c' };
    const seen: number[] = [];
    let after: number | undefined = 0;
    while (after !== undefined) {
      const query: Readonly<Record<string, unknown>> = { limit: 1_000, after };
      const page = await server.send('getHistory', { params, query }, as);
      expect(page.text.length).toBeLessThan(budget + frame);
      const { items, nextAfter } = page.json as Awaited<ReturnType<typeof client.history>>;
      seen.push(...items.map(({ id }) => id));
      after = nextAfter;
    }
    expect(seen).toEqual(seen.map((_, index) => index + 1));
    const whole = await client.exportHistory('c');
    expect(whole.events).toHaveLength(seen.length);
    const exported = await server.send('exportHistory', { params }, as);
    expect(exported.json).toEqual(whole);
    expect(exported.text.length).toBeGreaterThan(6 * largeLength);
    expect(Math.max(...reads)).toBeLessThanOrEqual(budget);

    // An unread export holds one page, and one stream until its reader disconnects.
    const before = reads.length;
    const socket = await openSocket(server.server.port);
    socket.pause();
    socket.write(headOf('GET /v1/instances/c/export', { token: server.tokens.read }));
    await expect.poll(() => readGauge(server, 'streams'), longPoll).toBe(1);
    expect(reads.length - before).toBeLessThanOrEqual(1);
    socket.destroy();
    await expect.poll(() => readGauge(server, 'streams'), longPoll).toBe(0);
    const missing = await server.send('exportHistory', { params: { id: 'nobody' } }, as);
    expect([missing.status, codeOf(missing)]).toEqual([404, 'INSTANCE_NOT_FOUND']);
  });

  it('getInstanceTree returns PAYLOAD_TOO_LARGE for more than 8 MiB of ids', async () => {
    const server = await open();
    const { provider } = LocalClient.internals(server.perdure.client).backend;
    await server.perdure.client.start('collect', 1, { id: 'root' });
    let children = 8_000;
    const spy = vi.spyOn(provider, 'listChildren').mockImplementation(async (ids) => {
      const names = Array.from({ length: children }, (_, n) => `${n}-`.padEnd(1_000, 'x'));
      return ids.map((id) => (id === 'root' ? names : []));
    });
    onTestFinished(() => spy.mockRestore());
    const request = { params: { id: 'root' } };
    expect((await server.send('getInstanceTree', request)).status).toBe(200);
    children = 9_000;
    const rejected = await server.send('getInstanceTree', request);
    expect([rejected.status, codeOf(rejected)]).toEqual([413, 'PAYLOAD_TOO_LARGE']);
  });

  it('listSessions returns pages of at most 8 MiB', async () => {
    const server = await open();
    const variables = Object.fromEntries(
      Array.from({ length: 50 }, (_, n) => [`v${n}`, 'x'.repeat(65_536)]),
    );
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) {
      ids.push((await server.perdure.client.openSession({ variables })).id);
    }
    const seen: string[] = [];
    let after: string | undefined;
    do {
      const query = { limit: 1_000, ...(after !== undefined && { after }) };
      const page = await server.send('listSessions', { query });
      expect(page.text.length).toBeLessThan(budget + frame);
      const { items, nextAfter } = page.json as { items: { id: string }[]; nextAfter?: string };
      seen.push(...items.map(({ id }) => id));
      after = nextAfter;
    } while (after !== undefined);
    expect(seen).toEqual(ids.toReversed());
  });

  it('listFlowItems returns pages of at most 8 MiB', async () => {
    const server = await open({ worker });
    const handle = await server.perdure.client.runFlow(spread, [0, 1, 2, 3, 4, 5], { id: 'f' });
    await handle.result().catch(() => undefined);
    const seen: number[] = [];
    let after: number | undefined = -1;
    while (after !== undefined) {
      const query: Readonly<Record<string, unknown>> = { step: 'made', after, limit: 1_000 };
      const page = await server.send(
        'listFlowItems',
        { params: { id: 'f' }, query },
        { token: server.tokens.read },
      );
      expect(page.text.length).toBeLessThan(budget + frame);
      const { items, nextAfter } = page.json as {
        items: { index: number; output?: string; item?: number }[];
        nextAfter?: number;
      };
      for (const { index, output, item } of items) {
        expect([index, item, output?.length]).toEqual([index, index, largeLength + 1]);
      }
      seen.push(...items.map(({ index }) => index));
      after = nextAfter;
    }
    expect(seen).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('getFlowRun returns at most 8 MiB of outputs and marks omitted ones', async () => {
    const server = await open({ worker });
    await (await server.perdure.client.runFlow(chain, 0, { id: 'f' })).result();
    const as = { token: server.tokens.read };
    const run = await server.send('getFlowRun', { params: { id: 'f' } }, as);
    expect(run.text.length).toBeLessThan(budget + largeLength + frame);
    const { steps } = run.json as {
      steps: { name: string; output?: string; outputOmitted?: true }[];
    };
    expect(
      steps.map(({ output, outputOmitted }) => [output?.length, outputOmitted === true]),
    ).toEqual([
      ...Array.from({ length: 4 }, () => [largeLength + 1, false]),
      ...Array.from({ length: 2 }, () => [undefined, true]),
      [1, false],
    ]);
  });

  it('a token above its budget of unread response bytes gets 429', async () => {
    const limits = { answerBudgetBytes: 64 * 1024 * 1024, answerBudgetBytesPerToken: 10_000_000 };
    const server = await open({ worker, limits });
    await runLarge(server, 6);
    const request = 'GET /v1/instances?payloads=true';
    const token = server.tokens.read;
    const socket = await openSocket(server.server.port);
    socket.pause();
    socket.write(headOf(request, { token }));
    await expect.poll(() => readGauge(server, 'answerBytes'), longPoll).toBeGreaterThan(7_000_000);
    const refused = await exchange(
      server.server.port,
      headOf(request, { token }).replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
    );
    expect(refused).toMatch(/^HTTP\/1.1 429 [^]*"RATE_LIMITED"/);
    const other = await openSocket(server.server.port);
    other.write(headOf(request, { token: server.tokens.operate }));
    expect(await readFirst(other)).toMatch(/^HTTP\/1.1 200 /);
    socket.destroy();
    other.destroy();
    await expect.poll(() => readGauge(server, 'answerBytes'), longPoll).toBe(0);
    expect(
      (await server.send('listInstances', { query: { payloads: true } }, { token })).status,
    ).toBe(200);
  });

  it('pipelined small responses count toward the unread response budget of a token', async () => {
    const limits = { answerBudgetBytes: 64 * 1024 * 1024, answerBudgetBytesPerToken: 1_000_000 };
    const server = await open({ limits });
    const name = 'n'.repeat(200);
    for (let n = 0; n < 100; n += 1) await server.perdure.client.start(name, n, { id: `i${n}` });
    const socket = await openSocket(server.server.port);
    socket.pause();
    const { read: token, operate } = server.tokens;
    socket.write(headOf('GET /v1/instances', { token }).repeat(400));
    const counted = async (): Promise<string> => server.ask('prometheus', {});
    await expect.poll(counted, longPoll).toMatch(/route="listInstances",status="429"\} \d/);
    expect(await readGauge(server, 'answerBytes')).toBeLessThanOrEqual(1_000_000);
    expect((await server.send('listInstances', {}, { token: operate })).status).toBe(200);
    socket.destroy();
    await expect.poll(() => readGauge(server, 'answerBytes'), longPoll).toBe(0);
  });

  it('unread session responses of an operate token count toward its budget', async () => {
    const limits = { answerBudgetBytes: 64 * 1024 * 1024, answerBudgetBytesPerToken: 8_000_000 };
    const server = await open({ limits });
    const token = server.tokens.operate;
    const params = { id: 's' };
    const body = { id: 's', idleTimeoutMs: 60_000 };
    expect((await server.send('openSession', { body }, { token })).status).toBe(200);
    for (let part = 0; part < 4; part += 1) {
      const names = Array.from({ length: 25 }, (_, n) => `v${part}-${n}`);
      const values = Object.fromEntries(names.map((name) => [name, 'v'.repeat(65_536)]));
      const given = { params, body: { set: values } };
      expect((await server.send('setSessionVariables', given, { token })).status).toBe(200);
    }
    await expect.poll(() => readGauge(server, 'answerBytes'), longPoll).toBe(0);
    const socket = await openSocket(server.server.port);
    socket.pause();
    socket.write(`${headOf('POST /v1/sessions/s/keep-alive', { token, length: 2 })}{}`);
    await expect.poll(() => readGauge(server, 'answerBytes'), longPoll).toBeGreaterThan(6_000_000);
    const set = { 'v0-0': 'w'.repeat(65_536) };
    const refused = [
      await server.send('keepAlive', { params }, { token }),
      await server.send('openSession', { body }, { token }),
      await server.send('setSessionVariables', { params, body: { set } }, { token }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([429, 429, 429]);
    socket.destroy();
    await expect.poll(() => readGauge(server, 'answerBytes'), longPoll).toBe(0);
    expect((await server.send('keepAlive', { params }, { token })).status).toBe(200);
  });
});

describeServer('response limits of an operate token', (open) => {
  it('readChunks stops at 8 MiB although a request names one job 1,000 times', async () => {
    const server = await open();
    const { provider } = LocalClient.internals(server.perdure.client).backend;
    await server.ask('openSession', { body: { id: 's', idleTimeoutMs: 60_000 } });
    let read = 0;
    const chunks = [{ seq: 1, payload: JSON.stringify('c'.repeat(1_000_000)) }];
    const spy = vi.spyOn(provider, 'readChunks').mockImplementation(async () => {
      read += 1;
      return { chunks, over: true };
    });
    onTestFinished(() => spy.mockRestore());
    const reads = Array.from({ length: 1_000 }, () => ({ id: 'j', incarnation: 'incarnation-1' }));
    const { pages } = await server.ask('readChunks', { params: { id: 's' }, body: { reads } });
    expect(pages.length).toBeGreaterThan(0);
    // Nine reads exceed 8 MiB, and up to eight more run concurrently.
    expect(read).toBeLessThanOrEqual(9 + 8);
  });
});
