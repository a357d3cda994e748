import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { newInstance } from '../../src/testing/conformance/sample-data.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

function lock(path: string): { readonly release: () => void } {
  const db = new Database(path);
  db.exec('BEGIN IMMEDIATE');
  onTestFinished(() => void db.close());
  return { release: () => db.exec('COMMIT') };
}

describe('while another connection holds the write lock', () => {
  it('a write waits without blocking the event loop and commits once', async () => {
    const { path, open } = temporaryStore();
    const provider = await open();
    const { release } = lock(path);
    const settled: string[] = [];
    const created = provider.createInstances([newInstance('first')]).then((results) => {
      settled.push('first');
      return results;
    });
    let longestMs = 0;
    const startedAt = performance.now();
    while (performance.now() - startedAt < 150) {
      const before = performance.now();
      await delay(1);
      longestMs = Math.max(longestMs, performance.now() - before);
    }
    // Later writes join the waiting group, after the earlier ones.
    const joined = provider.createInstances([newInstance('first'), newInstance('second')]);
    expect(settled).toEqual([]);
    // A wait inside SQLite would block the event loop while the lock is held.
    expect(longestMs).toBeLessThan(5_000);
    release();
    expect(await created).toMatchObject([{ kind: 'created' }]);
    expect(await joined).toMatchObject([{ kind: 'exists' }, { kind: 'created' }]);
  });

  it('reads succeed although another connection holds the write lock', async () => {
    const { path, open } = temporaryStore();
    const provider = await open();
    await provider.createInstances([newInstance('i')]);
    lock(path);
    expect(await provider.getInstances(['i'])).toMatchObject([{ status: 'pending' }]);
    expect((await provider.listInstances({ filter: {}, limit: 5 })).instances).toHaveLength(1);
  });

  it('a write rejects as retryable after busyTimeoutMs and stores nothing', async () => {
    const { path, open } = temporaryStore();
    const provider = await open({ busyTimeoutMs: 50 });
    const { release } = lock(path);
    await expect(provider.createInstances([newInstance('i')])).rejects.toMatchObject({
      code: 'PROVIDER',
      operation: 'createInstances',
      retryable: true,
    });
    release();
    expect(await provider.getInstances(['i'])).toEqual([undefined]);
    expect(await provider.createInstances([newInstance('i')])).toMatchObject([{ kind: 'created' }]);
  });

  it('close() waits for pending writes', async () => {
    const { path, open } = temporaryStore();
    const provider = await open();
    const { release } = lock(path);
    const created = provider.createInstances([newInstance('i')]);
    const closed = provider.close();
    await delay(20);
    release();
    expect(await created).toMatchObject([{ kind: 'created' }]);
    await closed;
    const again = await open();
    expect(await again.getInstances(['i'])).toMatchObject([{ status: 'pending' }]);
  });
});
