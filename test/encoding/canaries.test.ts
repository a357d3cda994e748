import { describe, expect, it, onTestFinished } from 'vitest';
import {
  activity,
  event,
  orchestration,
  silentLogger,
  task,
  update,
  type BatchRun,
} from '../../src/index.ts';
import { aesGcm, gzip, type PayloadCodec } from '../../src/codecs.ts';
import { connect } from '../../src/remote.ts';
import { serve } from '../../src/server.ts';
import {
  containsText,
  createEncodedStore,
  storeKinds,
  type EncodedStore,
} from './encoded-store.ts';

const canary = 'CANARY-in-a-coal-mine';
const keys = { k1: new Uint8Array(32).fill(1), k2: new Uint8Array(32).fill(2) };
const hashKey = new Uint8Array(32).fill(9);

/** An error with the text in every part that a failure has. */
function loudError(where: string): Error {
  const cause = new Error(`${canary} cause ${where}`);
  const error = new Error(`${canary} ${where}`, { cause });
  return Object.assign(error, { code: 'DECLINED', details: { card: `${canary} details` } });
}

/** Runs everything that stores a payload. Returns what the store contained meanwhile and afterwards. */
async function runEverything(store: EncodedStore, codec: PayloadCodec): Promise<Buffer[]> {
  const shots: Buffer[] = [];
  const shoot = async (): Promise<void> => void shots.push(await store.readAll());
  const go = event<{ text: string }>('go');
  const early = event<string>('early');
  let attempts = 0;
  const flaky = activity(
    'flaky',
    async (ctx, input: { text: string }) => {
      attempts += 1;
      ctx.heartbeat({ progress: `${canary} heartbeat` });
      if (attempts === 1) throw loudError('attempt');
      expect(ctx.lastHeartbeat).toEqual({ progress: `${canary} heartbeat` });
      await ctx.emit(`${canary} chunk`);
      return { result: `${canary} result of ${input.text}` };
    },
    { retry: { maxAttempts: 3, initialDelay: 300, backoff: 'fixed' } },
  );
  const commits = activity('commits', (ctx, input: string) =>
    ctx.transaction(async () => `${input} in a transaction`),
  );
  const child = orchestration('child', async (_ctx, input: string) => `${input} child output`);
  const failing = orchestration('failing', async (_ctx, input: string) => {
    throw loudError(input);
  });
  const parent = orchestration('parent', async (ctx, input: { text: string; round: number }) => {
    if (input.round === 1) return ctx.continueAsNew({ text: input.text, round: 2 });
    ctx.setCustomStatus({ at: `${canary} status` });
    const called = await ctx.call(flaky, { text: `${canary} activity input` });
    const stepped = await ctx.run('step', async (step) => {
      await step.emit(`${canary} chunk of a step`);
      return `${canary} step`;
    });
    const written = await ctx.transaction('write', async () => `${canary} written`);
    const committed = await ctx.call(commits, `${canary} to commit`);
    const fromChild = await ctx.child(child, `${canary} child input`);
    const opening = { token: early, payload: `${canary} start event` };
    const signaled = await ctx.child(echoing, 'x', { event: opening });
    await ctx.startDetached(echoing, 'x', { id: `${ctx.instanceId}-detached`, event: opening });
    const failed = await ctx.child(failing, `${canary} failing child`).then(
      () => 'no error',
      (error: Error) => String((error.cause as Error).message),
    );
    const received = await ctx.waitFor(go);
    const before = await ctx.waitFor(early);
    return { called, stepped, written, committed, fromChild, signaled, failed, received, before };
  });
  const echoing = orchestration('echoing', async (ctx, _input: string) => ctx.waitFor(early));
  const work = task('work', async (_ctx, input: string) => `${input} output`);
  const broken = task('broken', async () => {
    throw loudError('task');
  });
  const together = task(
    'together',
    async (ctx, _runs: readonly BatchRun<string, string>[]) => {
      await ctx.transaction((_tx, runs) => runs.map(({ input }) => `${input} output`));
    },
    { batch: { max: 2, wait: 10 } },
  );

  const perdure = await store.open({ codec });
  const { client } = perdure;
  const idle = await client.start(parent, { text: `${canary} input`, round: 1 }, { id: 'idle' });
  await client.raiseEvent('idle', early, `${canary} buffered event`);
  await client.schedules.put('nightly', {
    every: '1h',
    orchestration: child,
    input: `${canary} schedule`,
  });
  const session = await client.openSession({ variables: { secret: `${canary} variable` } });
  await client.runTask(work, `${canary} queued task`, { id: 'queued', delay: '1h' });
  await shoot();

  const worker = await perdure.startWorker({
    orchestrations: [parent, child, failing, echoing],
    activities: [flaky, commits],
    tasks: [work, broken, together],
  });
  await expect.poll(async () => (await client.get('idle'))?.pending?.[0]?.attempt).toBe(2);
  await shoot();
  const job = session.submit(parent, { text: `${canary} job`, round: 2 }, { id: 'job' });
  await client.raiseEvent('idle', go, { text: `${canary} event` });
  await expect.poll(async () => (await client.get('job'))?.status).toBe('running');
  await client.raiseEvent('job', go, { text: `${canary} event` });
  await client.raiseEvent('job', early, 'x');
  const chunks: unknown[] = [];
  for await (const chunk of job.stream()) chunks.push(chunk);
  expect(chunks).toEqual([`${canary} chunk`, `${canary} chunk of a step`]);
  await job.result();
  expect(await idle.result()).toEqual({
    called: { result: `${canary} result of ${canary} activity input` },
    stepped: `${canary} step`,
    written: `${canary} written`,
    committed: `${canary} to commit in a transaction`,
    fromChild: `${canary} child input child output`,
    signaled: `${canary} start event`,
    failed: `${canary} ${canary} failing child`,
    received: { text: `${canary} event` },
    before: `${canary} buffered event`,
  });
  expect(await client.handle('idle-detached').result()).toBe(`${canary} start event`);
  expect((await client.get('idle'))?.customStatus).toEqual({ at: `${canary} status` });
  const run = await client.runTask(broken, undefined, { id: 'failed' });
  await expect(run.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
  const inputs = [`${canary} first of a batch`, `${canary} second of a batch`];
  const batch = await client.runTasks(inputs.map((input) => ({ task: together, input })));
  const outputs = await Promise.all(batch.map((each) => each.result()));
  expect(outputs).toEqual(inputs.map((input) => `${input} output`));
  const { lastRuns } = (await client.schedules.get('nightly')) ?? {};
  expect(lastRuns).toBeUndefined();
  const { id } = await client.schedules.trigger('nightly');
  expect(await client.handle(id).result()).toBe(`${canary} schedule child output`);
  expect((await client.sessions.get(session.id))?.variables).toEqual({
    secret: `${canary} variable`,
  });
  await shoot();
  await worker.stop();
  await shoot();
  return shots;
}

/** Talks to a running instance in every way. Returns what the store contained meanwhile and afterwards. */
async function talkToInstance(store: EncodedStore, codec: PayloadCodec): Promise<Buffer[]> {
  const shots: Buffer[] = [];
  const shoot = async (): Promise<void> => void shots.push(await store.readAll());
  const say = update<{ text: string }, { reply: string }>('say');
  const refuse = update<string, never>('refuse');
  const go = event('go');
  const listener = orchestration('listener', async (ctx) => {
    const heard: string[] = [];
    ctx.onUpdate(say, {
      handle: async ({ text }) => {
        heard.push(text);
        ctx.state.set('heard', { last: text });
        ctx.emit(`${canary} chunk`);
        const kept = await ctx.run('keep', () => `${canary} kept`);
        return { reply: `${text} ${kept}` };
      },
    });
    ctx.onUpdate(refuse, {
      handle: () => {
        throw loudError('update');
      },
    });
    const resolved = ctx.awakeable<string>();
    const rejected = ctx.awakeable<string>();
    ctx.setCustomStatus([resolved.token, rejected.token]);
    const results = await ctx.allSettled([resolved.promise, rejected.promise]);
    const outcomes = results.map((one) =>
      one.status === 'fulfilled' ? one.value : String(one.reason),
    );
    await ctx.waitFor(go);
    return { heard, outcomes, state: ctx.state.get('heard') };
  });
  const perdure = await store.open({ codec });
  const { client } = perdure;
  const handle = await client.start(listener, undefined, { id: 'listener' });
  // No worker runs: the update waits in the store.
  const early = client.update('listener', say, { text: `${canary} early` });
  early.catch(() => undefined);
  await expect.poll(async () => (await store.readAll()).includes('say')).toBe(true);
  await shoot();

  const worker = await perdure.startWorker({ orchestrations: [listener] });
  expect(await early).toEqual({ reply: `${canary} early ${canary} kept` });
  await shoot();
  const failed = client.update('listener', refuse, `${canary} refused`);
  await expect(failed).rejects.toMatchObject({ code: 'UPDATE_FAILED' });
  expect(await client.state('listener', 'heard')).toMatchObject({
    value: { last: `${canary} early` },
  });
  const heard = await client.get('listener');
  const [first = '', second = ''] = (heard?.customStatus ?? []) as string[];
  await client.resolveAwakeable(first, `${canary} answer`);
  await client.rejectAwakeable(second, `${canary} reason`);
  await shoot();
  await handle.raiseEvent(go);
  const result = await handle.result();
  expect(result.heard).toEqual([`${canary} early`]);
  expect(result.outcomes[0]).toBe(`${canary} answer`);
  expect(result.outcomes[1]).toContain(`${canary} reason`);
  expect(result.state).toEqual({ last: `${canary} early` });
  const chunks: unknown[] = [];
  for await (const entry of client.stream('listener')) chunks.push('value' in entry && entry.value);
  expect(chunks).toEqual([`${canary} chunk`]);
  await shoot();
  await worker.stop();
  await shoot();
  return shots;
}

describe.each(storeKinds)('encoded payloads on %s', (kind) => {
  it('no update, reply, awakeable, state or chunk is readable in the store', async () => {
    const store = await createEncodedStore(kind);
    const shots = await talkToInstance(store, aesGcm({ current: 'k1', keys, hashKey }));
    expect(shots.map((bytes) => containsText(bytes, canary))).toEqual(shots.map(() => false));
    expect(shots).toHaveLength(5);
    // Names of updates and keys of the state stay readable.
    const last = shots.at(-1) as Buffer;
    expect(['say', 'heard'].map((text) => containsText(last, text))).toEqual([true, true]);
  });

  it('no payload is readable in the store while everything runs', async () => {
    const store = await createEncodedStore(kind);
    const codec = gzip({ inner: aesGcm({ current: 'k1', keys, hashKey }) });
    const shots = await runEverything(store, codec);
    expect(shots.map((bytes) => containsText(bytes, canary))).toEqual([false, false, false, false]);
    // Names, codes and kinds stay readable.
    expect(containsText(shots.at(-1) as Buffer, 'DECLINED')).toBe(true);
  });

  it('the search finds payloads that a codec leaves readable', async () => {
    const store = await createEncodedStore(kind);
    const plain: PayloadCodec = {
      encode: (bytes) => ({ keyId: 'plain', bytes }),
      decode: (bytes) => bytes,
    };
    const { client } = await store.open({ codec: plain });
    await client.start('any', `${canary} input`);
    expect(containsText(await store.readAll(), canary)).toBe(true);
  });

  it('a failed instance keeps its name and code readable without the codec', async () => {
    const store = await createEncodedStore(kind);
    const codec = aesGcm({ current: 'k1', keys, hashKey });
    const failing = task('failing', async () => {
      throw loudError('here');
    });
    const perdure = await store.open({ codec });
    await perdure.startWorker({ tasks: [failing] });
    const run = await perdure.client.runTask(failing, undefined, { id: 'f' });
    await expect(run.result()).rejects.toMatchObject({ failure: { message: `${canary} here` } });
    const { items } = await perdure.client.list({ failureCode: 'DECLINED' });
    expect(items.map(({ id }) => id)).toEqual(['f']);
    await expect(perdure.client.list({ failureText: canary })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    await perdure.close();
    const { client } = await store.open();
    const { failure } = (await client.get('f')) ?? {};
    expect(failure).toMatchObject({ name: 'Error', code: 'DECLINED' });
    expect(failure?.message).toContain('encoded');
    expect((await client.list({ failureCode: 'DECLINED' })).items).toHaveLength(1);
  });
});

describe.each(storeKinds)('encoded payloads of a blocked instance on %s', (kind) => {
  it('code that disagrees with an encoded history is explained, also without the codec', async () => {
    const store = await createEncodedStore(kind);
    const go = event<string>('go');
    const deploy = (step: string) =>
      orchestration('deployed', async (ctx, input: string) => {
        const result = await ctx.run(step, () => `${input} result`);
        ctx.state.set('result', result);
        return [result, await ctx.waitFor(go)];
      });
    const perdure = await store.open({ codec: aesGcm({ current: 'k1', keys, hashKey }) });
    const { client } = perdure;
    const quiet = { logger: silentLogger, warmCacheBytes: 0 };
    const before = await perdure.startWorker({ ...quiet, orchestrations: [deploy('charge')] });
    const handle = await client.start(deploy('charge'), canary, { id: 'b' });
    await handle.waitForState('result');
    await before.stop();
    const wrong = await perdure.startWorker({
      ...quiet,
      orchestrations: [deploy('ship')],
      buildId: 'wrong',
    });
    await handle.raiseEvent(go, `${canary} event`);
    await expect.poll(async () => (await client.get('b'))?.blocked?.code).toBe('NONDETERMINISM');
    const without = (await store.open()).client;
    for (const reader of [client, without]) {
      const { text, waits } = await reader.why('b');
      expect(waits[0]).toMatchObject({
        kind: 'blocked',
        recorded: { text: 'step "charge"' },
        issued: { text: 'step "ship"' },
      });
      expect(text).toContain('step "charge"');
    }
    expect(containsText(await store.readAll(), canary)).toBe(false);
    await wrong.stop();
    await perdure.startWorker({
      ...quiet,
      orchestrations: [deploy('charge')],
      buildId: 'right',
    });
    expect(await handle.result()).toEqual([`${canary} result`, `${canary} event`]);
  });
});

describe('encoded payloads over HTTP', () => {
  const codec = aesGcm({ current: 'k1', keys, hashKey });
  const twice = task('twice', async (ctx, text: string) => {
    await ctx.emit(`${text} chunk`);
    return text + text;
  });
  const say = update<string, string>('say');
  const keeps = orchestration('keeps', async (ctx, text: string) => {
    ctx.onUpdate(say, { handle: (said) => `${said} reply` });
    ctx.state.set('kept', `${text} state`);
    ctx.setCustomStatus(`${text} status`);
    await ctx.waitFor('end');
  });
  const failing = task('failing', async () => {
    throw loudError('remote');
  });

  async function serveStore(store: EncodedStore, options: { readonly codec?: PayloadCodec }) {
    const perdure = await store.open(options);
    const server = await serve(perdure, { port: 0 });
    onTestFinished(() => server.close());
    return server.url;
  }

  async function fill(store: EncodedStore): Promise<void> {
    const perdure = await store.open({ codec });
    await perdure.startWorker({ orchestrations: [keeps], tasks: [twice, failing] });
    const { client } = perdure;
    await (await client.runTask(twice, canary, { id: 'done' })).result();
    const kept = await client.start(keeps, canary, { id: 'kept' });
    await client.update('kept', say, canary, { key: 'k' });
    await kept.raiseEvent('end');
    await kept.result();
    const run = await client.runTask(failing, undefined, { id: 'failed' });
    await run.result().catch(() => undefined);
    await perdure.close();
  }

  it('a server with the codec returns plain values', async () => {
    const store = await createEncodedStore('SQLite');
    await fill(store);
    const connection = await connect(await serveStore(store, { codec }));
    const { client } = connection;
    expect(await client.handle('done').result()).toBe(canary + canary);
    expect((await client.get('failed'))?.failure?.message).toBe(`${canary} remote`);
    await connection.close();
  });

  it('a server without the codec leaves the values to a client that has it', async () => {
    const store = await createEncodedStore('SQLite');
    await fill(store);
    const url = await serveStore(store, {});
    const without = await connect(url);
    await expect(without.client.handle('done').result()).rejects.toMatchObject({
      code: 'CODEC_FAILED',
    });
    const reads: readonly (() => Promise<unknown>)[] = [
      () => without.client.state('kept'),
      () => without.client.waitForState('kept', 'kept'),
      () => without.client.waitForStatus('kept'),
      () => without.client.stream('done').next(),
    ];
    for (const read of reads) await expect(read()).rejects.toMatchObject({ code: 'CODEC_FAILED' });
    const response = await fetch(`${url}/v1/instances/done`);
    expect(containsText(Buffer.from(await response.text()), canary)).toBe(false);
    const replies = await fetch(`${url}/v1/bulk/updates/wait`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ updates: [{ id: 'kept', key: 'k' }] }),
    });
    const [reply] = ((await replies.json()) as { results: { output: unknown }[] }).results;
    expect(reply?.output).toEqual({ $encoded: expect.stringMatching(/^~perdure1:k1:/) as string });
    expect((await without.client.get('failed'))?.failure?.code).toBe('DECLINED');
    await without.close();

    const withCodec = await connect(url, { codec });
    expect(await withCodec.client.handle('done').result()).toBe(canary + canary);
    expect(await withCodec.client.get('done')).toMatchObject({
      input: canary,
      output: canary + canary,
    });
    expect((await withCodec.client.get('failed'))?.failure).toMatchObject({
      code: 'DECLINED',
      message: `${canary} remote`,
      details: { card: `${canary} details` },
    });
    const chunks: unknown[] = [];
    for await (const entry of withCodec.client.stream('done')) {
      chunks.push(entry.kind === 'chunk' && entry.value);
    }
    expect(chunks).toEqual([`${canary} chunk`]);
    expect((await withCodec.client.state('kept', 'kept'))?.value).toBe(`${canary} state`);
    expect((await withCodec.client.waitForStatus('kept')).value).toBe(`${canary} status`);
    await withCodec.close();
    await expect(connect(url, { codec: {} as never })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
  });
});
