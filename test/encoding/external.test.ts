import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  activity,
  event,
  folderStore,
  orchestration,
  Perdure,
  silentLogger,
  task,
  type ExternalPayloadStore,
} from '../../src/index.ts';
import { aesGcm } from '../../src/codecs.ts';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { sweepExternalPayloads } from '../../src/providers/encoding/external-sweep.ts';
import { ExternalSweeper } from '../../src/providers/encoding/external-sweeper.ts';
import { containsText, createEncodedStore, storeKinds } from './encoded-store.ts';

const canary = 'CANARY-in-a-coal-mine';
const large = canary.repeat(1_000);
const echo = activity('echo', async (_ctx, text: string) => `${text}!`);
const go = event<string>('go');
const echoes = orchestration('echoes', async (ctx, text: string) => {
  const answer = await ctx.call(echo, text);
  const received = await ctx.waitFor(go);
  return [answer.length, received.length, answer];
});
const definitions = { orchestrations: [echoes], activities: [echo] };

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-external-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function filesIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
}

async function makeOld(path: string, hours = 2): Promise<void> {
  const then = new Date(Date.now() - hours * 3_600_000);
  await utimes(path, then, then);
}

describe.each(storeKinds)('external payloads on %s', (kind) => {
  async function open(codec?: ReturnType<typeof aesGcm>) {
    const store = await createEncodedStore(kind);
    const folder = await temporaryFolder();
    const externalPayloads = { store: folderStore(folder), aboveBytes: 4_096 };
    const options = { externalPayloads, ...(codec !== undefined && { codec }) };
    return { store, folder, options, perdure: await store.open(options) };
  }

  it('large payloads are stored in the other store, small ones in the database', async () => {
    const { store, folder, perdure } = await open();
    await perdure.startWorker(definitions);
    const { client } = perdure;
    const handle = await client.start(echoes, large, { id: 'a' });
    await client.raiseEvent('a', go, large);
    expect(await handle.result()).toEqual([large.length + 1, large.length, `${large}!`]);
    expect((await client.get('a'))?.input).toBe(large);
    expect((await filesIn(folder)).length).toBeGreaterThan(3);
    expect(containsText(await store.readAll(), canary)).toBe(false);
    const small = await client.start(echoes, `${canary} small`, { id: 'b' });
    await client.raiseEvent('b', go, 'x');
    await small.result();
    expect(containsText(await store.readAll(), `${canary} small`)).toBe(true);
  });

  it('payloads are deleted with their instance, also after a crash in between', async () => {
    const { store, folder, options, perdure } = await open();
    await perdure.startWorker(definitions);
    const { client } = perdure;
    for (const id of ['gone', 'kept']) {
      const handle = await client.start(echoes, large, { id });
      await client.raiseEvent(id, go, large);
      await handle.result();
    }
    const filesOf = async (id: string): Promise<number> => {
      const part = `/i/${Buffer.from(id).toString('base64url')}/`;
      return (await filesIn(folder)).filter((file) => file.includes(part)).length;
    };
    const [gone, kept] = [await filesOf('gone'), await filesOf('kept')];
    expect(gone).toBeGreaterThan(3);
    await client.deleteInstance('gone');
    // The process ends before it deletes a file.
    await perdure.close();
    const later = await store.open(options);
    expect(await later.sweepExternalPayloads()).toBe(0);
    expect(await later.sweepExternalPayloads({ graceMs: 0 })).toBe(gone);
    expect(await later.sweepExternalPayloads({ graceMs: 0 })).toBe(0);
    expect([await filesOf('gone'), await filesOf('kept')]).toEqual([0, kept]);
    expect((await later.client.handle('kept').result()) as unknown[]).toHaveLength(3);
    await later.client.deleteInstance('kept');
    await later.sweepExternalPayloads({ graceMs: 0 });
    expect(await filesIn(folder)).toEqual([]);
  });

  it('a fork keeps the payloads that it shares with a deleted instance', async () => {
    const { folder, perdure } = await open();
    await perdure.startWorker(definitions);
    const { client } = perdure;
    await client.start(echoes, large, { id: 'source' });
    await expect.poll(async () => (await client.why('source')).waits[0]?.kind).toBe('event');
    const { items } = await client.history('source');
    const fork = await client.fork('source', { from: items.length, id: 'fork' });
    await client.deleteInstance('source', { force: true });
    await perdure.sweepExternalPayloads({ graceMs: 0 });
    await client.raiseEvent('fork', go, 'x');
    expect(((await fork.result()) as unknown[])[0]).toBe(large.length + 1);
    const { items: copied } = await client.history('fork');
    expect(copied.some(({ event: { kind: one } }) => one === 'activityCompleted')).toBe(true);
    await client.deleteInstance('fork');
    // The first sweep deletes the payloads of both. Marks of the fork end with them.
    await perdure.sweepExternalPayloads({ graceMs: 0 });
    expect(await filesIn(folder)).toEqual([]);
  });

  it('a sweep deletes payloads of an earlier instance with the same id', async () => {
    const { folder, perdure } = await open();
    await perdure.startWorker(definitions);
    const { client } = perdure;
    const run = async (id: string): Promise<readonly string[]> => {
      const before = new Set(await filesIn(folder));
      const handle = await client.start(echoes, large, { id });
      await client.raiseEvent(id, go, large);
      await handle.result();
      return (await filesIn(folder)).filter((file) => !before.has(file));
    };
    const [earlier, recent] = [await run('reused'), await run('kept')];
    await client.deleteInstance('reused');
    const current = await run('reused');
    for (const file of earlier) await makeOld(file, 25);
    // The clocks of the database and the external store may differ: 23 hours are not enough.
    for (const file of [...recent, ...current]) await makeOld(file, 23);
    expect(await perdure.sweepExternalPayloads()).toBe(earlier.length);
    expect((await filesIn(folder)).toSorted()).toEqual([...recent, ...current].toSorted());
    expect((await client.handle('reused').result()) as unknown[]).toHaveLength(3);
  });

  it('a sweep deletes the payloads of pruned executions, also after a crash in between', async () => {
    const { store, folder, options, perdure } = await open();
    const rounds = orchestration(
      'rounds',
      async (ctx, { round }: { round: number; text: string }) => {
        ctx.onUpdate('ask', { handle: () => `${large} reply ${round}` });
        const text = await ctx.call(echo, `${large} ${round}`);
        ctx.state.set(`key ${round % 2}`, `${text} state`);
        ctx.setCustomStatus(`${text} status`);
        await ctx.run('step', () => `${text} step`);
        const word = await ctx.waitFor(go);
        if (word.startsWith('next'))
          await ctx.continueAsNew({ round: round + 1, text: `${word} input` });
        return `${word} output`;
      },
    );
    const worker = await perdure.startWorker({ orchestrations: [rounds], activities: [echo] });
    const { client } = perdure;
    const handle = await client.start(rounds, { round: 1, text: large }, { id: 'long' });
    for (let round = 1; round <= 6; round += 1) {
      await client.update('long', 'ask', undefined, { key: `u${round}` });
      await expect.poll(async () => (await client.why('long')).waits[0]?.kind).toBe('event');
      await client.raiseEvent('long', go, `next ${large}`);
      await expect.poll(async () => (await client.get('long'))?.executionId).toBe(round + 1);
    }
    // Payloads that are only in queues: a work item, a buffered event, and a message while no worker runs.
    await expect.poll(async () => (await client.why('long')).waits[0]?.kind).toBe('event');
    await worker.stop();
    await client.raiseEvent('long', go, `last ${large}`);
    const before = (await filesIn(folder)).length;
    expect(await perdure.sweepExternalPayloads({ graceMs: 0 })).toBe(0);
    expect((await client.pruneExecutions('long', { keepLast: 1 })).executionsDeleted).toBe(6);
    // The process ends before it deletes a file.
    await perdure.close();
    const later = await store.open(options);
    expect(await later.sweepExternalPayloads()).toBe(0);
    const deleted = await later.sweepExternalPayloads({ graceMs: 0 });
    expect(deleted).toBeGreaterThan(30);
    expect(await filesIn(folder)).toHaveLength(before - deleted);
    expect(await later.sweepExternalPayloads({ graceMs: 0 })).toBe(0);
    // What the instance still has is complete.
    const now = later.client;
    expect((await now.get('long'))?.customStatus).toBe(`${large} 7! status`);
    const state = (await now.state('long')).map(({ value }) => value);
    expect(state).toEqual([`${large} 6! state`, `${large} 7! state`]);
    for (let round = 1; round <= 6; round += 1)
      expect(await now.update('long', 'ask', undefined, { key: `u${round}` })).toBe(
        `${large} reply ${round}`,
      );
    await later.startWorker({ orchestrations: [rounds], activities: [echo] });
    expect(await now.handle('long').result()).toBe(`last ${large} output`);
    for (const { event: one } of (await now.history('long')).items)
      if ('payload' in one) expect(String(one.payload)).not.toContain('missing');
    expect(handle.id).toBe('long');
    // Each execution has less than 30 payloads.
    expect((await filesIn(folder)).length).toBeLessThan(30);
  });

  it('retries and forks keep the payloads that they share with pruned executions', async () => {
    const { folder, perdure } = await open();
    const failing = orchestration('failing', async (ctx, text: string) => {
      const answer = await ctx.call(echo, text);
      await ctx.waitFor(go);
      if ((await ctx.waitFor<string, string>(event('fate'))) === 'fail') throw new Error(answer);
      return answer;
    });
    await perdure.startWorker({ orchestrations: [failing], activities: [echo] });
    const { client } = perdure;
    await client.start(failing, large, { id: 'one' });
    await client.raiseEvent('one', go, large);
    await client.raiseEvent('one', 'fate', 'fail');
    await client.wait('one');
    const { items } = await client.history('one');
    await client.fork('one', { from: items.length - 1, id: 'fork' });
    await client.retry('one', { from: 'failure' });
    await client.raiseEvent('one', 'fate', 'fail').catch(() => undefined);
    await client.wait('one');
    await client.retry('one', { from: 'failure' });
    await client.pruneExecutions('one', { keepLast: 1 });
    expect(await perdure.sweepExternalPayloads({ graceMs: 0 })).toBeGreaterThan(0);
    for (const id of ['one', 'fork']) {
      const inputs = (await client.history(id)).items.map(({ event: one }) => JSON.stringify(one));
      expect(inputs.join()).not.toContain('missing');
      expect(inputs.join()).toContain(large);
      await client.terminate(id);
    }
    await client.deleteInstance('fork');
    await client.deleteInstance('one');
    await perdure.sweepExternalPayloads({ graceMs: 0 });
    expect(await filesIn(folder)).toEqual([]);
  });

  it('a fork keeps the payloads of a deleted source whose id is used again', async () => {
    const { folder, perdure } = await open();
    await perdure.startWorker(definitions);
    const { client } = perdure;
    await client.start(echoes, large, { id: 'source' });
    await expect.poll(async () => (await client.why('source')).waits[0]?.kind).toBe('event');
    const { items } = await client.history('source');
    const fork = await client.fork('source', { from: items.length, id: 'fork' });
    await client.deleteInstance('source', { force: true });
    for (const file of await filesIn(folder)) {
      if (file.includes('/i/c291cmNl/')) await makeOld(file, 48);
    }
    await client.start(echoes, 'small', { id: 'source' });
    expect(await perdure.sweepExternalPayloads()).toBe(0);
    await client.raiseEvent('fork', go, 'x');
    expect(((await fork.result()) as unknown[])[0]).toBe(large.length + 1);
    await client.deleteInstance('fork');
    expect(await perdure.sweepExternalPayloads()).toBeGreaterThan(0);
    expect((await filesIn(folder)).filter((file) => file.includes('/i/c291cmNl/'))).toEqual([]);
  });

  it('chunks stay in the database, so that streamLimitBytes bounds the stream', async () => {
    const { folder, perdure } = await open();
    const chunks = Array.from({ length: 40 }, (_, index) => `${index}${'x'.repeat(5_000)}`);
    const byTask = task('byTask', async (ctx) => {
      for (const chunk of chunks) await ctx.emit(chunk);
    });
    const byTurn = orchestration('byTurn', async (ctx) => {
      for (const chunk of chunks) ctx.emit(chunk);
    });
    const byTransaction = orchestration('byTransaction', async (ctx) => {
      for (const chunk of chunks) ctx.emit(chunk);
      await ctx.transaction('nothing', async () => undefined);
    });
    const orchestrations = [byTurn, byTransaction];
    await perdure.startWorker({ tasks: [byTask], orchestrations, streamLimitBytes: 65_536 });
    const { client } = perdure;
    const handles = [
      await client.runTask(byTask, undefined, { id: 'task' }),
      await client.start(byTurn, undefined, { id: 'turn' }),
      await client.start(byTransaction, undefined, { id: 'transaction' }),
    ];
    for (const handle of handles) {
      await handle.result();
      let bytes = 0;
      for await (const one of client.stream(handle.id)) {
        if (one.kind === 'chunk') bytes += String(one.value).length;
      }
      expect(bytes).toBeGreaterThan(5_000);
      expect(bytes).toBeLessThanOrEqual(65_536);
    }
    // The events of the two histories are external.
    expect(await filesIn(folder)).toHaveLength(2 * chunks.length);
  });

  it('a fork with an id of 1,000 bytes keeps the payloads of a source with such an id', async () => {
    const { folder, perdure } = await open();
    await perdure.startWorker(definitions);
    const { client } = perdure;
    const [source, forkId] = ['s'.repeat(1_000), 'f'.repeat(1_000)];
    await client.start(echoes, large, { id: source });
    await expect.poll(async () => (await client.why(source)).waits[0]?.kind).toBe('event');
    const { items } = await client.history(source);
    const fork = await client.fork(source, { from: items.length, id: forkId });
    const keys = (await filesIn(folder)).map((file) => relative(folder, file));
    expect(keys.filter((key) => !/^[\w./-]{1,1500}$/.test(key))).toEqual([]);
    await client.deleteInstance(source, { force: true });
    await perdure.sweepExternalPayloads({ graceMs: 0 });
    await client.raiseEvent(forkId, go, 'x');
    expect(((await fork.result()) as unknown[])[0]).toBe(large.length + 1);
    await client.deleteInstance(forkId);
    await perdure.sweepExternalPayloads({ graceMs: 0 });
    expect(await filesIn(folder)).toEqual([]);
  });

  it('with a codec nothing is readable in the other store, and a damaged file blocks its instance', async () => {
    const codec = aesGcm({
      current: 'k1',
      keys: { k1: new Uint8Array(32).fill(1) },
      hashKey: new Uint8Array(32),
    });
    const { folder, perdure } = await open(codec);
    const { client } = perdure;
    await client.start(echoes, large, { id: 'a' });
    const [file = ''] = await filesIn(folder);
    const bytes = await readFile(file);
    expect(containsText(bytes, canary)).toBe(false);
    await rm(file);
    await perdure.startWorker({ ...definitions, maxClaims: 1 });
    await expect.poll(async () => (await client.get('a'))?.blocked?.code).toBe('CODEC_FAILED');
    expect((await client.get('a'))?.blocked?.reason).toContain('missing');
    await writeFile(file, bytes);
    await client.raiseEvent('a', go, 'x');
    const result = await client.handle('a').result({ timeout: '30s' });
    expect((result as unknown[])[0]).toBe(large.length + 1);
  });
});

describe('external payloads', () => {
  it('a start whose payload cannot be stored rejects and creates nothing', async () => {
    const broken: ExternalPayloadStore = {
      put: () => Promise.reject(new Error('bucket is gone')),
      get: () => Promise.resolve(undefined),
      delete: () => Promise.resolve(),
      list: () => Promise.resolve([]),
    };
    const perdure = await Perdure.open(':memory:', {
      externalPayloads: { store: broken, aboveBytes: 1_024 },
    });
    await expect(perdure.client.start('any', large, { id: 'a' })).rejects.toMatchObject({
      code: 'CODEC_FAILED',
    });
    expect(await perdure.client.get('a')).toBeUndefined();
    await perdure.close();
  });

  it('a fork whose mark cannot be stored rejects with CODEC_FAILED and creates nothing', async () => {
    const store = folderStore(await temporaryFolder());
    let isBroken = false;
    const failing: ExternalPayloadStore = {
      ...store,
      put: (...args) => (isBroken ? Promise.reject(new Error('disk is full')) : store.put(...args)),
    };
    const perdure = await Perdure.open(':memory:', {
      externalPayloads: { store: failing, aboveBytes: 1_024 },
    });
    // The input is small: a fork writes its first event again, and the failure must be that of the mark.
    const grown = orchestration('grown', async (ctx) => {
      await ctx.run('grow', () => large);
      await ctx.waitFor(go);
    });
    await perdure.startWorker({ orchestrations: [grown] });
    const { client } = perdure;
    await client.start(grown, undefined, { id: 'source' });
    await expect.poll(async () => (await client.why('source')).waits[0]?.kind).toBe('event');
    const { items } = await client.history('source');
    isBroken = true;
    const fork = client.fork('source', { from: items.length, id: 'fork' });
    await expect(fork).rejects.toMatchObject({ code: 'CODEC_FAILED' });
    await expect(fork).rejects.toThrow('the mark of a fork');
    expect(await client.get('fork')).toBeUndefined();
    await perdure.close();
  });

  it('Perdure.open() and folderStore() reject invalid values', async () => {
    const store = folderStore('unused');
    const bad: readonly unknown[] = [{}, { store: {} }, { store, aboveBytes: 10 }, { store, x: 1 }];
    for (const externalPayloads of bad) {
      await expect(
        Perdure.open(':memory:', { externalPayloads: externalPayloads as never }),
      ).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    }
    expect(() => folderStore('')).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
    await expect(store.get('../secret')).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it('folderStore() lists keys in order, in pages and by prefix', async () => {
    const store = folderStore(await temporaryFolder());
    const keys = ['i/a/p.1', 'i/a/p.2', 'i/a/b/p.1', 'i/b/p.1', 'i/ab/p.1', 'i/a/f.x'];
    for (const key of keys) await store.put(key, new TextEncoder().encode(key));
    const listed: string[] = [];
    for (let after: string | undefined; ;) {
      const page = await store.list({ limit: 2, ...(after !== undefined && { after }) });
      listed.push(...page.map(({ key }) => key));
      after = page.at(-1)?.key;
      if (after === undefined) break;
    }
    expect(listed.toSorted()).toEqual(keys.toSorted());
    expect(new Set(listed).size).toBe(keys.length);
    const marks = await store.list({ prefix: 'i/a/f.', limit: 9 });
    expect(marks.map(({ key }) => key)).toEqual(['i/a/f.x']);
    expect(Buffer.from((await store.get('i/b/p.1')) ?? []).toString()).toBe('i/b/p.1');
    await store.delete(['i/b/p.1', 'i/unknown']);
    expect(await store.get('i/b/p.1')).toBeUndefined();
  });

  it('folderStore() lists a prefix without reading other folders', async () => {
    const folder = await temporaryFolder();
    const store = folderStore(folder);
    const keys = ['i/a/p.1', 'i/a/b/p.1', 'i/ab/p.1', 'j/p.1'];
    for (const key of keys) await store.put(key, new Uint8Array(1));
    const list = async (prefix: string, after?: string): Promise<readonly string[]> => {
      const page = { prefix, limit: 9, ...(after !== undefined && { after }) };
      return (await store.list(page)).map(({ key }) => key);
    };
    // A walk deletes old empty folders, so one that is still there was not read.
    await mkdir(join(folder, 'i/unread'));
    await makeOld(join(folder, 'i/unread'));
    expect(await list('i/a/')).toEqual(['i/a/b/p.1', 'i/a/p.1']);
    expect(await list('i/a')).toEqual(['i/a/b/p.1', 'i/a/p.1', 'i/ab/p.1']);
    expect(await list('i/a', 'i/a/b/p.1')).toEqual(['i/a/p.1', 'i/ab/p.1']);
    expect(await list('i/a/p.1/')).toEqual([]);
    expect(await list('none/')).toEqual([]);
    expect(await readdir(join(folder, 'i'))).toContain('unread');
    expect(await list('')).toHaveLength(keys.length);
    expect(await readdir(join(folder, 'i'))).not.toContain('unread');
    await expect(store.list({ prefix: '../x/', limit: 1 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  it('folderStore() deletes old temporary files and empty folders', async () => {
    const folder = await temporaryFolder();
    const store = folderStore(folder);
    await store.put('i/a/b/p.1', new Uint8Array(1));
    await store.put('i/a/p.1', new Uint8Array(1));
    await mkdir(join(folder, 'i/crashed'));
    const [fresh, old] = ['i/a/b/p.2.fresh.tmp', 'i/crashed/p.1.old.tmp'];
    for (const file of [fresh, old]) await writeFile(join(folder, file), 'part');
    await mkdir(join(folder, 'i/empty'));
    await makeOld(join(folder, 'i/empty'));
    await makeOld(join(folder, old));
    expect(await store.list({ limit: 9 })).toHaveLength(2);
    const entries = (await readdir(folder, { recursive: true })).toSorted();
    expect(entries).toEqual(['i', 'i/a', 'i/a/b', 'i/a/b/p.1', fresh, 'i/a/p.1']);
    await rm(join(folder, fresh));
    await store.delete(['i/a/b/p.1', 'i/a/p.1']);
    expect(await readdir(folder)).toEqual([]);
  });

  it('folderStore() stores payloads while other calls delete empty folders', async () => {
    const store = folderStore(await temporaryFolder());
    const put = async (worker: number): Promise<void> => {
      for (let index = 0; index < 50; index += 1) {
        const key = `i/a/${worker}/p.${index}`;
        await store.put(key, new Uint8Array(1));
        await store.delete([key]);
        await store.list({ limit: 9 });
      }
    };
    await Promise.all([0, 1, 2, 3].map(put));
    expect(await store.list({ limit: 9 })).toEqual([]);
  });

  it('a sweep reads executions only of instances that may have pruned ones', async () => {
    const store = memoryStore();
    for (let index = 0; index < 30; index += 1) {
      await store.put(`i/${Buffer.from(`kept-${index}`).toString('base64url')}/p.1`, empty);
    }
    const read: string[] = [];
    const provider = {
      readVersions: (ids: readonly string[]) =>
        Promise.resolve(
          ids.map((instanceId) => ({ instanceId, executionId: instanceId === 'kept-7' ? 2 : 1 })),
        ),
      listExecutions: ({ instanceId }: { readonly instanceId: string }) => {
        read.push(instanceId);
        return Promise.resolve([{ executionId: 1 }]);
      },
      inspectInstances: ({ instanceIds }: { readonly instanceIds: readonly string[] }) =>
        Promise.resolve(instanceIds.map(() => undefined)),
    } as unknown as Provider;
    expect(await sweepExternalPayloads(store, provider)).toBe(0);
    expect(read).toEqual(['kept-7']);
  });

  it('a sweep renews its lease, and stops when another process holds it', async () => {
    const store = memoryStore();
    for (let index = 0; index < 30; index += 1) {
      await store.put(`i/${Buffer.from(`gone-${index}`).toString('base64url')}/p.1`, empty);
    }
    let nowMs = 0;
    let leases = 0;
    const logger = silentLogger;
    const clock: Clock = {
      now: () => nowMs,
      monotonic: () => nowMs,
      setTimer: () => () => undefined,
    };
    const provider = {
      takeLease: () => {
        leases += 1;
        return Promise.resolve(leases < 4);
      },
      readVersions: (ids: readonly string[]) => Promise.resolve(ids.map(() => undefined)),
    } as unknown as Provider;
    // Each list takes 1 minute, and the lease 10 minutes.
    const slow: ExternalPayloadStore = {
      ...store,
      list: (page) => {
        nowMs += 60_000;
        return store.list(page);
      },
    };
    const sweeper = new ExternalSweeper({ provider, clock, logger, store: slow });
    sweeper.start();
    await expect.poll(() => leases).toBe(4);
    await sweeper.stop();
    expect(nowMs).toBeLessThanOrEqual(10 * 60_000);
    expect(await store.list({ limit: 99 })).toHaveLength(30);
  });
});

const empty = new Uint8Array();

function memoryStore(): ExternalPayloadStore {
  const stored = new Map<string, Uint8Array>();
  return {
    put: async (key, bytes) => void stored.set(key, bytes),
    get: async (key) => stored.get(key),
    delete: async (keys) => keys.forEach((key) => stored.delete(key)),
    list: async ({ prefix = '', after = '', limit }) =>
      [...stored.keys()]
        .filter((key) => key.startsWith(prefix) && key > after)
        .toSorted()
        .slice(0, limit)
        .map((key) => ({ key, writtenAt: 0 })),
  };
}
