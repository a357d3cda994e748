/** Deletion of one instance through the client, with a real worker. docs/seed-tests.md maps the seed cases. */
import { expect, it } from 'vitest';
import type { Hint } from 'perdure/provider';
import {
  chain,
  complete,
  emptyStore,
  fails,
  grows,
  remainingIds,
  leaves,
  runExecutions,
  quick,
  tidies,
  until,
  waits,
  countRemaining,
  wide,
  describeManaged,
} from './managed-store.ts';

describeManaged('deleteInstance()', ({ openManaged, openShared }) => {
  it('deleteInstance() deletes a completed, failed, canceled or terminated instance with all its data', async () => {
    const { client } = await openManaged();
    await complete(client, ['completed']);
    await expect((await client.start(fails, undefined, { id: 'failed' })).result()).rejects.toThrow(
      'on purpose',
    );
    for (const id of ['canceled', 'terminated']) await client.start(waits, undefined, { id });
    await client.cancel('canceled', { wait: true });
    await client.terminate('terminated');
    for (const id of ['completed', 'failed', 'canceled', 'terminated']) {
      expect((await client.get(id))?.status).toBe(id);
      const { items } = await client.history(id);
      expect(await client.deleteInstance(id)).toEqual({
        instancesDeleted: 1,
        executionsDeleted: 1,
        eventsDeleted: items.length,
        queueMessagesDeleted: 0,
      });
      expect(await client.get(id)).toBeUndefined();
      await expect(client.history(id)).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
      await expect(client.listExecutions(id)).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
    }
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('deleteInstance() of a running instance rejects with a fix; force deletes it', async () => {
    const { client } = await openManaged();
    const handle = await client.start(waits, undefined, { id: 'w' });
    await until(async () => (await handle.status()).status === 'running');
    await expect(client.deleteInstance('w')).rejects.toMatchObject({
      code: 'INSTANCE_STILL_RUNNING',
      message: expect.stringMatching(/"w" is running.*Cancel.*terminate.*force/),
    });
    expect((await handle.status()).status).toBe('running');
    expect(await handle.delete({ force: true })).toMatchObject({ instancesDeleted: 1 });
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('deleteInstance() of a pending instance rejects with INSTANCE_STILL_RUNNING unless forced', async () => {
    const { client } = await openManaged(null);
    await client.start('quick', undefined, { id: 'p' });
    await expect(client.deleteInstance('p')).rejects.toMatchObject({
      code: 'INSTANCE_STILL_RUNNING',
    });
    expect(await client.deleteInstance('p', { force: true })).toEqual({
      instancesDeleted: 1,
      executionsDeleted: 1,
      eventsDeleted: 0,
      queueMessagesDeleted: 1,
    });
  });

  it('deleteInstance() of a canceling instance rejects until it is canceled', async () => {
    const { client } = await openManaged();
    await client.start(tidies, undefined, { id: 't' });
    await client.cancel('t');
    await expect(client.deleteInstance('t')).rejects.toMatchObject({
      code: 'INSTANCE_STILL_RUNNING',
      message: expect.stringContaining('"t" is canceling'),
    });
    await client.raiseEvent('t', 'tidy');
    expect(await client.wait('t')).toMatchObject({ status: 'canceled' });
    expect(await client.deleteInstance('t')).toMatchObject({ instancesDeleted: 1 });
  });

  it('deleteInstance() of an unknown or deleted id rejects with INSTANCE_NOT_FOUND', async () => {
    const { client } = await openManaged();
    const missing = { code: 'INSTANCE_NOT_FOUND' };
    await expect(client.deleteInstance('nobody')).rejects.toMatchObject(missing);
    await expect(client.deleteInstance('nobody', { force: true })).rejects.toMatchObject(missing);
    await complete(client, ['a']);
    await client.deleteInstance('a');
    await expect(client.deleteInstance('a')).rejects.toMatchObject(missing);
    await expect(client.getInstanceTree('a')).rejects.toMatchObject(missing);
    await expect(client.getInstanceInfo('a')).rejects.toMatchObject(missing);
    await expect(client.pruneExecutions('a')).rejects.toMatchObject(missing);
  });

  it('two concurrent deleteInstance() calls: one resolves, the other rejects with INSTANCE_NOT_FOUND', async () => {
    const { client } = await openManaged();
    await complete(client, ['a']);
    const ends = await Promise.allSettled([client.deleteInstance('a'), client.deleteInstance('a')]);
    expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(ends.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'INSTANCE_NOT_FOUND' },
    });
  });

  it('deleteInstance() of a child rejects, even with force; the error names its root', async () => {
    const { client } = await openManaged();
    const handle = await client.start(chain, { below: 2, wait: true }, { id: 'root' });
    await until(async () => (await client.get('root-c-c'))?.status === 'running');
    const refused = {
      code: 'CANNOT_DELETE_SUB_ORCHESTRATION',
      message: expect.stringContaining('Delete its root "root"'),
    };
    const tryBoth = async (): Promise<void> => {
      for (const id of ['root-c', 'root-c-c']) {
        await expect(client.deleteInstance(id)).rejects.toMatchObject(refused);
        await expect(client.deleteInstance(id, { force: true })).rejects.toMatchObject(refused);
      }
    };
    await tryBoth();
    await client.raiseEvent('root-c-c', 'go', 'on');
    expect(await handle.result()).toBe('on');
    await tryBoth();
    expect(await remainingIds(client)).toEqual(['root', 'root-c', 'root-c-c']);
  });

  it('getInstanceTree() returns every descendant once, children before parents', async () => {
    const { client } = await openManaged();
    await (await client.start(chain, { below: 3, wait: false }, { id: 'a' })).result();
    await complete(client, ['lone']);
    expect(await client.getInstanceTree('a')).toEqual({
      rootId: 'a',
      allIds: ['a-c-c-c', 'a-c-c', 'a-c', 'a'],
      size: 4,
      isRootOnly: false,
    });
    expect(await client.getInstanceTree('a-c-c')).toMatchObject({ allIds: ['a-c-c-c', 'a-c-c'] });
    expect(await client.getInstanceTree('lone')).toEqual({
      rootId: 'lone',
      allIds: ['lone'],
      size: 1,
      isRootOnly: true,
    });
  });

  it('deleteInstance() of a root deletes its whole tree and no other instance', async () => {
    const { client } = await openManaged();
    await (await client.start(chain, { below: 3, wait: false }, { id: 'a' })).result();
    await (await client.start(chain, { below: 1, wait: false }, { id: 'b' })).result();
    expect(await client.deleteInstance('a')).toMatchObject({
      instancesDeleted: 4,
      executionsDeleted: 4,
    });
    expect(await remainingIds(client)).toEqual(['b', 'b-c']);
  });

  it('deleteInstance() rejects while a descendant runs; force deletes the whole tree', async () => {
    const { client } = await openManaged();
    await client.start(leaves, undefined, { id: 'b' });
    await until(async () => (await client.get('b'))?.status === 'completed');
    await until(async () => (await client.get('b-child'))?.status === 'running');
    await expect(client.deleteInstance('b')).rejects.toMatchObject({
      code: 'INSTANCE_STILL_RUNNING',
      message: expect.stringContaining('"b-child", a descendant of "b", is running'),
    });
    expect(await remainingIds(client)).toEqual(['b', 'b-child']);
    expect(await client.deleteInstance('b', { force: true })).toMatchObject({
      instancesDeleted: 2,
    });
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('deleteInstance() of a root with 2,000 children leaves no rows', async () => {
    const { client } = await openManaged({ warmCacheBytes: 0 });
    await (await client.start(wide, 2_000, { id: 'w' })).result();
    expect(await client.deleteInstance('w')).toMatchObject({ instancesDeleted: 2_001 });
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('deleteInstance() deletes and counts all executions of the instance', async () => {
    const { client } = await openManaged();
    await runExecutions(client, 'e', 4);
    await client.raiseEvent('e', 'go');
    await client.wait('e');
    const { items } = await client.listExecutions('e');
    const events = items.reduce((sum, { historyLength }) => sum + historyLength, 0);
    expect(await client.deleteInstance('e')).toEqual({
      instancesDeleted: 1,
      executionsDeleted: 5,
      eventsDeleted: events,
      queueMessagesDeleted: 0,
    });
  });

  it('a deleted id can be reused immediately and inherits no data', async () => {
    const { client } = await openManaged();
    await runExecutions(client, 'same', 2);
    await client.raiseEvent('same', 'unread', 1);
    await client.deleteInstance('same', { force: true });
    const handle = await client.start(quick, 'new life', { id: 'same' });
    expect(await handle.result()).toBe('new life');
    expect(await client.getInstanceInfo('same')).toMatchObject({
      executionId: 1,
      name: 'quick',
      size: { executions: 1, children: 0, messages: 0, activities: 0 },
    });
  });

  it('result() and wait() reject with INSTANCE_NOT_FOUND when the instance is deleted', async () => {
    const { client } = await openManaged();
    const handle = await client.start(waits, undefined, { id: 'w' });
    const waitings = [handle.result(), client.wait('w'), client.handle('w').result()];
    const ends = Promise.allSettled(waitings);
    await until(async () => (await handle.status()).status === 'running');
    await handle.delete({ force: true });
    for (const end of await ends) {
      expect(end).toMatchObject({ reason: { code: 'INSTANCE_NOT_FOUND' } });
    }
  });

  it('result() and wait() for a deleted instance reject after its id is reused', async () => {
    const listeners = new Set<(hint: Hint) => void>();
    let isDeaf = false;
    const { client } = await openManaged({}, (store) => ({
      ...store,
      hints: (listener) => {
        listeners.add(listener);
        const stop = store.hints((hint) => {
          if (!isDeaf) listener(hint);
        });
        return () => {
          listeners.delete(listener);
          stop();
        };
      },
    }));
    const first = await client.start(waits, undefined, { id: 'w' });
    const ends = Promise.allSettled([
      first.result(),
      client.wait('w'),
      client.handle('w').result(),
    ]);
    await until(async () => (await first.status()).status === 'running');
    // The hint arrives only after the id is reused.
    isDeaf = true;
    await client.deleteInstance('w', { force: true });
    const second = await client.start(waits, undefined, { id: 'w' });
    isDeaf = false;
    for (const listener of listeners) listener({ kind: 'finished', instanceIds: ['w'] });
    for (const end of await ends) {
      expect(end).toMatchObject({
        reason: {
          code: 'INSTANCE_NOT_FOUND',
          message: expect.stringContaining('another instance has its id'),
        },
      });
    }
    await second.raiseEvent('go', 'second');
    expect(await second.result()).toBe('second');
  });

  it('deleteInstance() during start() either rejects with INSTANCE_NOT_FOUND or deletes everything', async () => {
    const { client } = await openManaged();
    for (let round = 0; round < 20; round += 1) {
      const id = `r-${round}`;
      const birth = client.start(chain, { below: 1, wait: true }, { id });
      for (let turns = 0; turns < round % 5; turns += 1) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      const [started, deleted] = await Promise.allSettled([
        birth,
        client.deleteInstance(id, { force: true }),
      ]);
      expect(started.status).toBe('fulfilled');
      const there = (await client.get(id)) !== undefined;
      expect(there).toBe(deleted.status === 'rejected');
      if (deleted.status === 'rejected') {
        expect(deleted.reason).toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
        await client.deleteInstance(id, { force: true });
      }
    }
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  /** A store that adds one more child between the read of a tree and its deletion. */
  async function openGrowing(births: number) {
    let born = 0;
    const managed = await openManaged({}, (store) => ({
      ...store,
      deleteInstancesAtomic: async (trees) => {
        const grown = born < births && (await getOneMore());
        if (grown) born += 1;
        return store.deleteInstancesAtomic(trees);
      },
    }));
    const { client } = managed;
    async function getOneMore(): Promise<boolean> {
      if ((await client.get('g'))?.status !== 'running') return false;
      await client.raiseEvent('g', 'more');
      await until(async () => (await client.get(`g-${born}`)) !== undefined);
      return true;
    }
    await client.start(grows, undefined, { id: 'g' });
    await until(async () => (await client.get('g'))?.status === 'running');
    return { client, births: () => born };
  }

  it('deleteInstance() also deletes children created while it reads the tree', async () => {
    const { client, births } = await openGrowing(2);
    expect(await client.deleteInstance('g', { force: true })).toMatchObject({
      instancesDeleted: 3,
    });
    expect(births()).toBe(2);
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('deleteInstance() of a tree that keeps growing stops it and deletes it', async () => {
    const { client, births } = await openGrowing(1_000);
    const { instancesDeleted } = await client.deleteInstance('g', { force: true });
    expect(births()).toBeGreaterThan(3);
    expect(instancesDeleted).toBe(births() + 1);
    expect(await countRemaining(client)).toEqual(emptyStore);
  });

  it('getInstanceTree() visits a parent cycle once; deleteInstance() rejects and names the cycle', async () => {
    const { client, tamper } = await openShared({});
    await (await client.start(chain, { below: 2, wait: false }, { id: 'a' })).result();
    const forged = `UPDATE instances SET parent_instance_id = 'a-c-c' WHERE instance_id = 'a'`;
    expect(await tamper(forged)).toBe(1);
    const { allIds } = await client.getInstanceTree('a');
    expect(allIds.toSorted()).toEqual(['a', 'a-c', 'a-c-c']);
    for (const id of allIds) {
      await expect(client.deleteInstance(id, { force: true })).rejects.toMatchObject({
        code: 'CANNOT_DELETE_SUB_ORCHESTRATION',
        message: expect.stringContaining('cycle'),
      });
    }
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
      instancesDeleted: 0,
    });
    expect(await remainingIds(client)).toEqual(['a', 'a-c', 'a-c-c']);
  });

  it('deleteInstance() with invalid input rejects and deletes nothing', async () => {
    const { client } = await openManaged();
    await complete(client, ['a']);
    const invalid = { code: 'INVALID_OPTION' };
    await expect(client.deleteInstance('')).rejects.toMatchObject({ code: 'INVALID_ID' });
    await expect(client.deleteInstance(5 as never)).rejects.toMatchObject({ code: 'INVALID_ID' });
    await expect(client.deleteInstance('a', true as never)).rejects.toMatchObject(invalid);
    await expect(client.deleteInstance('a', null as never)).rejects.toMatchObject(invalid);
    await expect(client.deleteInstance('a', { force: 1 as never })).rejects.toMatchObject(invalid);
    await expect(client.deleteInstance('a', { forced: true } as never)).rejects.toMatchObject(
      invalid,
    );
    await expect(client.deleteInstance('a', { actor: '' })).rejects.toMatchObject({
      code: 'INVALID_NAME',
    });
    expect(await remainingIds(client)).toEqual(['a']);
  });

  it('management calls of a closed client reject with CLOSED', async () => {
    const { client } = await openManaged();
    const calls = [
      () => client.deleteInstance('a'),
      () => client.deleteInstanceBulk({}, { all: true }),
      () => client.pruneExecutions('a'),
      () => client.pruneExecutionsBulk({}, { all: true }),
      () => client.getInstanceTree('a'),
      () => client.getInstanceInfo('a'),
      () => client.listExecutions('a'),
      () => client.listAudit(),
      () => client.queueDepths(),
      () => client.systemMetrics(),
      () => client.retention.status(),
      () => client.retention.pause(),
      () => client.retention.resume(),
      () => client.retention.run(),
      () => client.handle('a').delete(),
    ];
    await client.close();
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'CLOSED' });
  });
});
