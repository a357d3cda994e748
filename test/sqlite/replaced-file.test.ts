import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { activity, orchestration, Perdure, type Logger } from '../../src/index.ts';
import { serve } from '../../src/server/serve.ts';
import { createToken } from '../../src/server/access/tokens.ts';
import { newInstance } from '../../src/testing/conformance/sample-data.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const step = activity('step', async (_ctx, n: number) => n + 1);
const steps = orchestration('steps', (ctx, n: number) => ctx.call(step, n));
const waits = orchestration('waits', (ctx) => ctx.waitFor('go'));
const definitions = { orchestrations: [steps, waits], activities: [step] };

const isReplaced = { code: 'STORE_REPLACED', retryable: false };

/** What an operator or a script can do to the files of an open database. */
const faults: Readonly<Record<string, (path: string) => void>> = {
  'the file is deleted': (path) => rmSync(path),
  'all its files are deleted': (path) => {
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix);
  },
  'the file is replaced by another': (path) => {
    writeFileSync(`${path}.new`, '');
    renameSync(`${path}.new`, path);
  },
  'the file is moved away': (path) => renameSync(path, `${path}.old`),
  'the write-ahead log is deleted': (path) => rmSync(`${path}-wal`),
};

/** Starts instances until one is rejected; returns how many were acknowledged. */
async function startUntilRejected(
  perdure: Perdure,
): Promise<{ acknowledged: number; error: unknown }> {
  const deadline = performance.now() + 20_000;
  for (let acknowledged = 0; performance.now() < deadline; acknowledged++) {
    try {
      await perdure.client.start('unregistered');
    } catch (error) {
      return { acknowledged, error };
    }
  }
  throw new Error('No start was rejected.');
}

async function open(path: string): Promise<Perdure> {
  const perdure = await Perdure.open(path);
  onTestFinished(() => perdure.close());
  return perdure;
}

describe.skipIf(process.platform === 'win32')(
  'a database whose files are replaced while it is open',
  () => {
    it.each(Object.keys(faults))('every call rejects with STORE_REPLACED once %s', async (name) => {
      const { path } = temporaryStore();
      const perdure = await open(path);
      const handle = await perdure.client.start('unregistered');
      faults[name]?.(path);
      const { error } = await startUntilRejected(perdure);
      expect(error).toMatchObject(isReplaced);
      await expect(perdure.client.start('unregistered')).rejects.toMatchObject(isReplaced);
      await expect(handle.status()).rejects.toMatchObject(isReplaced);
      await expect(handle.cancel()).rejects.toMatchObject(isReplaced);
      await expect(handle.result({ timeout: '10s' })).rejects.toMatchObject(isReplaced);
    });

    it('writes are acknowledged for at most 100 ms after the file is deleted', async () => {
      const { path, open } = temporaryStore();
      const store = await open();
      await store.createInstances([newInstance('before')]);
      rmSync(path);
      const deletedAt = performance.now();
      let lastAcknowledgedAt = deletedAt;
      for (let n = 0; ; n++) {
        const begunAt = performance.now();
        const results = await store.createInstances([newInstance(`i-${n}`)]).catch(() => undefined);
        if (results === undefined) break;
        lastAcknowledgedAt = begunAt;
      }
      // Every write that begins later is checked, however slow the machine is.
      expect(lastAcknowledgedAt - deletedAt).toBeLessThanOrEqual(100);
      await expect(store.createInstances([newInstance('after')])).rejects.toMatchObject(isReplaced);
    });

    it('a waiting result() and a waiting fetch reject once the file is deleted', async () => {
      const { path, open: openStore } = temporaryStore();
      const store = await openStore();
      const fetching = store.fetchWorkItems({ max: 1, lockMs: 1_000, waitMs: 60_000 });
      const perdure = await open(path);
      const handle = await perdure.client.start('unregistered');
      const waiting = handle.result({ timeout: '60s' });
      rmSync(path);
      await Promise.all([
        expect(fetching).rejects.toMatchObject(isReplaced),
        expect(waiting).rejects.toMatchObject(isReplaced),
      ]);
    });

    it('remote calls and waits reject with STORE_REPLACED once the file is deleted', async () => {
      const { path } = temporaryStore();
      const perdure = await open(path);
      const { token, sha256 } = createToken();
      const server = await serve(perdure, {
        port: 0,
        tokens: [{ name: 't', role: 'admin', sha256 }],
      });
      onTestFinished(() => server.close());
      const remote = await Perdure.connect(server.url, { token });
      onTestFinished(() => remote.close());
      const handle = await remote.client.start('unregistered');
      const waiting = handle.result({ timeout: '60s' });
      rmSync(path);
      await expect(waiting).rejects.toMatchObject(isReplaced);
      await expect(handle.cancel()).rejects.toMatchObject(isReplaced);
    });

    it('an idle worker stops and logs an error once the file is deleted', async () => {
      const { path } = temporaryStore();
      const perdure = await open(path);
      const errors: { readonly fields: object; readonly message: string }[] = [];
      const stopped = Promise.withResolvers<void>();
      const logger: Logger = {
        debug: () => undefined,
        info: () => undefined,
        warn: () => undefined,
        error: (fields, message) => {
          errors.push({ fields, message });
          stopped.resolve();
        },
      };
      const worker = await perdure.startWorker({ ...definitions, logger, name: 'w-1' });
      expect(await (await perdure.client.start(steps, 1)).result({ timeout: '15s' })).toBe(2);
      rmSync(path);
      await stopped.promise;
      await worker.stop();
      expect(errors).toMatchObject([
        {
          fields: { error: isReplaced, worker: 'w-1' },
          message: expect.stringContaining('stopping the worker'),
        },
      ]);
    });

    it('close() leaves the files of the replacement database intact', async () => {
      const { path } = temporaryStore();
      const first = await Perdure.open(path);
      await first.client.start('unregistered', undefined, { id: 'old' });
      for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix);
      const second = await open(path);
      await second.client.start('unregistered', undefined, { id: 'new' });
      await first.close();
      await second.client.start('unregistered', undefined, { id: 'newer' });
      const third = await open(path);
      expect((await third.client.list()).items.map(({ id }) => id)).toEqual(['newer', 'new']);
    });
  },
);

it('an in-memory database runs without file checks', async () => {
  const perdure = await open(':memory:');
  await perdure.startWorker(definitions);
  expect(await (await perdure.client.start(steps, 1)).result({ timeout: '15s' })).toBe(2);
});
