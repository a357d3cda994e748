/** Actions on all instances that match a filter, through the client, and their audit. */
import { expect, it } from 'vitest';
import type { BulkProgress, Client, Provider } from 'perdure';
import {
  complete,
  describeManaged,
  fails,
  quick,
  runExecutions,
  until,
  waits,
} from './managed-store.ts';

const ids = (prefix: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

async function startWaiting(client: Client, names: readonly string[]): Promise<void> {
  await Promise.all(names.map((id) => client.start(waits, undefined, { id })));
}

describeManaged('bulk operations', ({ openManaged }) => {
  it('bulk.cancel() cancels all matching instances and no other, with one audit record', async () => {
    const { client } = await openManaged(null);
    await startWaiting(client, ids('a', 250));
    await startWaiting(client, ids('b', 3));
    const progress: BulkProgress[] = [];
    const result = await client.bulk.cancel(
      { idPrefix: 'a', status: 'pending' },
      { reason: 'load test', actor: 'ann', onProgress: (one) => progress.push(one) },
    );
    expect(result).toEqual({ matched: 250, changed: 250, refused: [], refusedMore: 0, done: true });
    expect(progress.at(-1)).toMatchObject({ matched: 250, changed: 250, refused: 0 });
    const { items } = await client.list({ status: 'canceled' }, { limit: 1_000 });
    expect(items.map(({ id }) => id).toSorted()).toEqual(ids('a', 250).toSorted());
    expect(items[0]?.cancel).toMatchObject({ reason: 'load test', actor: 'ann' });
    const audit = await client.listAudit();
    expect(audit.items).toMatchObject([
      {
        action: 'cancelBulk',
        actor: 'ann',
        reason: 'load test',
        instanceId: null,
        instances: 250,
        filter: '{"status":["pending"],"idPrefix":true}',
      },
    ]);
  });

  it('bulk operations without a match change nothing and leave no audit record', async () => {
    const { client } = await openManaged(null);
    const none = { matched: 0, changed: 0, refused: [], refusedMore: 0, done: true };
    expect(await client.bulk.cancel({ name: 'missing' })).toEqual(none);
    expect(await client.bulk.delete({}, { all: true })).toEqual(none);
    expect(await client.bulk.raiseEvent({ status: 'running' }, 'go')).toEqual(none);
    expect((await client.listAudit()).items).toEqual([]);
  });

  it('bulk.cancel() refuses ended instances and lists the first 100 with a reason', async () => {
    const { client } = await openManaged();
    await complete(client, ids('done', 120));
    const { refused, ...rest } = await client.bulk.cancel({}, { all: true, actor: 'ann' });
    expect(rest).toEqual({ matched: 120, changed: 0, refusedMore: 20, done: true });
    expect(refused).toHaveLength(100);
    expect(refused[0]).toMatchObject({ code: 'INSTANCE_OVER', reason: 'It is completed.' });
    expect((await client.listAudit()).items).toEqual([]);
  });

  it('bulk.terminate() and bulk.raiseEvent() reach each matching instance once', async () => {
    const { client } = await openManaged();
    await startWaiting(client, ids('e', 120));
    await startWaiting(client, ids('t', 5));
    await until(async () => (await client.list({ status: 'pending' })).items.length === 0);
    const raised = await client.bulk.raiseEvent({ idPrefix: 'e' }, 'go', { payload: 'now' });
    expect(raised).toMatchObject({ matched: 120, changed: 120, done: true });
    expect(await client.handle('e7').result()).toBe('now');
    expect(await client.bulk.terminate({ idPrefix: 't' })).toMatchObject({ changed: 5 });
    expect((await client.get('t0'))?.status).toBe('terminated');
    const { items } = await client.listAudit();
    expect(items.map(({ action, instances }) => [action, instances])).toEqual([
      ['terminateBulk', 5],
      ['raiseEventBulk', 120],
    ]);
    expect(items[1]?.filter).toBe('{"idPrefix":true,"event":"go"}');
  });

  it('bulk.delete() deletes ended roots, refuses running ones, and names no instance', async () => {
    const { client } = await openManaged();
    await complete(client, ids('d', 40));
    await startWaiting(client, ['w']);
    await client.cancel('w', { actor: 'ann', wait: true });
    await startWaiting(client, ['x']);
    const result = await client.bulk.delete({ kind: 'orchestration' }, { actor: 'ann' });
    expect(result).toMatchObject({ matched: 42, changed: 41, done: true });
    expect(result.refused).toMatchObject([{ id: 'x', code: 'INSTANCE_STILL_RUNNING' }]);
    const { items } = await client.listAudit();
    expect(items).toMatchObject([
      { action: 'deleteBulk', instances: 41, instancesDeleted: 41 },
      { action: 'cancel', instanceId: null },
    ]);
  });

  it('bulk.prune() prunes matching instances and counts each once', async () => {
    const { client } = await openManaged();
    await runExecutions(client, 'p', 40);
    await startWaiting(client, ['q']);
    expect(await client.bulk.prune({}, { all: true, keepLast: 1 })).toMatchObject({
      matched: 2,
      changed: 1,
      done: true,
    });
    const { items } = await client.listAudit({ action: 'pruneBulk' });
    expect(items).toMatchObject([{ instances: 1, executionsDeleted: 40 }]);
  });

  it('bulk.retry() retries failed roots, refuses others, and writes one audit record', async () => {
    const { client } = await openManaged();
    for (const id of ids('f', 20)) await client.start(fails, undefined, { id });
    await complete(client, ['done']);
    await until(async () => (await client.count({ status: 'failed' })).count === 20);
    await startWaiting(client, ['w']);
    const options = { from: 'start', actor: 'ann', reason: 'fixed' } as const;
    const { refused, ...rest } = await client.bulk.retry({ kind: 'orchestration' }, options);
    expect(rest).toEqual({ matched: 22, changed: 20, refusedMore: 0, done: true });
    expect(refused).toMatchObject([
      { id: 'w', code: 'INSTANCE_STILL_RUNNING' },
      { id: 'done', code: 'INSTANCE_NOT_RETRYABLE' },
    ]);
    const { items } = await client.list({ name: 'fails' });
    expect(new Set(items.map(({ executionId }) => executionId))).toEqual(new Set([2]));
    expect((await client.listAudit()).items).toMatchObject([
      {
        action: 'retryBulk',
        actor: 'ann',
        reason: 'fixed',
        instances: 20,
        filter: '{"kind":"orchestration","from":"start"}',
      },
    ]);
  });

  it('a repeated part of bulk.retry() retries none twice, even if all have failed again', async () => {
    const { client } = await openManaged();
    for (const id of ids('f', 9)) await client.start(fails, undefined, { id });
    const allFailed = () =>
      until(async () => (await client.count({ status: 'failed' })).count === 9);
    await allFailed();
    const options = { from: 'failure', limit: 3, actor: 'ann' } as const;
    const { cursor } = await client.bulk.retry({ name: 'fails' }, options);
    await client.bulk.retry({ name: 'fails' }, { ...options, cursor });
    await allFailed();
    // The result of the second part was lost, so its caller continues from the first.
    const again = { from: 'failure', actor: 'ann', cursor } as const;
    const rest = await client.bulk.retry({ name: 'fails' }, again);
    expect(rest).toMatchObject({ matched: 9, changed: 9, refused: [], done: true });
    await allFailed();
    for (const id of ids('f', 9)) expect((await client.get(id))?.executionId).toBe(2);
    expect((await client.listAudit()).items).toMatchObject([{ instances: 9 }]);
  });

  it('bulk.pause() and bulk.resume() change each matching instance once, with typed refusals', async () => {
    const { client } = await openManaged();
    await complete(client, ['done']);
    await startWaiting(client, ids('a', 120));
    await until(async () => (await client.count({ status: 'running' })).count === 120);
    const by = { actor: 'ann', reason: 'deploy' };
    const all = { kind: 'orchestration' } as const;
    const { refused, ...paused } = await client.bulk.pause(all, by);
    expect(paused).toEqual({ matched: 121, changed: 120, refusedMore: 0, done: true });
    expect(refused).toEqual([{ id: 'done', code: 'INSTANCE_OVER', reason: 'It is completed.' }]);
    expect((await client.get('a7'))?.paused).toMatchObject(by);
    expect(await client.count({ paused: true })).toEqual({ count: 120, capped: false });
    expect(await client.bulk.pause({ idPrefix: 'a' }, by)).toMatchObject({ changed: 0 });
    expect(await client.bulk.resume({ paused: true }, by)).toMatchObject({
      matched: 120,
      changed: 120,
      refused: [],
      done: true,
    });
    expect(await client.bulk.resume({ idPrefix: 'a' }, by)).toMatchObject({ changed: 0 });
    expect((await client.list({ paused: true })).items).toEqual([]);
    await client.raiseEvent('a7', 'go', 'now');
    expect(await client.handle('a7').result()).toBe('now');
    const { items } = await client.listAudit();
    expect(items).toMatchObject([
      { action: 'resumeBulk', instances: 120, filter: '{"paused":true}', ...by },
      { action: 'pauseBulk', instances: 120, ...by },
    ]);
  });

  it('a paused instance that is terminated and retried runs again', async () => {
    const { client } = await openManaged();
    await startWaiting(client, ['w']);
    await until(async () => (await client.get('w'))?.status === 'running');
    await client.pause('w');
    await client.terminate('w');
    expect(await client.get('w')).not.toHaveProperty('paused');
    await client.retry('w', { from: 'start' });
    await client.raiseEvent('w', 'go', 'again');
    expect(await client.handle('w').result()).toBe('again');
  });

  it('bulk.retry() without a valid `from` rejects with INVALID_OPTION', async () => {
    const { client } = await openManaged(null);
    for (const options of [undefined, {}, { from: 'end' }, { from: 3 }]) {
      await expect(client.bulk.retry({ name: 'fails' }, options as never)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
    }
  });

  it('a dry run counts by status with a sample and changes nothing', async () => {
    const { client } = await openManaged();
    await complete(client, ids('c', 30));
    await startWaiting(client, ['w']);
    await until(async () => (await client.get('w'))?.status === 'running');
    for (const action of ['cancel', 'terminate', 'delete', 'prune'] as const) {
      const result = await client.bulk[action]({}, { all: true, dryRun: true, actor: 'ann' });
      expect(result).toMatchObject({
        matched: 31,
        changed: 0,
        done: true,
        preview: { byStatus: { completed: 30, running: 1 }, capped: false },
      });
      expect(result.preview?.sample).toHaveLength(20);
      expect(result.preview?.sample[0]).toBe('w');
    }
    expect((await client.listAudit()).items).toEqual([]);
    expect((await client.get('w'))?.status).toBe('running');
    expect((await client.list({}, { limit: 1_000 })).items).toHaveLength(31);
  });

  it('limit and cursor visit every instance once, and skip instances created after the start', async () => {
    const { client } = await openManaged(null);
    await startWaiting(client, ids('a', 25));
    const options = { limit: 10, actor: 'ann' };
    const filter = { status: ['pending', 'canceled'] } as const;
    const first = await client.bulk.cancel(filter, options);
    expect(first).toMatchObject({ matched: 10, changed: 10, done: false });
    await startWaiting(client, ['late']);
    const second = await client.bulk.cancel(filter, { ...options, cursor: first.cursor });
    expect(second).toMatchObject({ matched: 20, changed: 20, done: false });
    const third = await client.bulk.cancel(filter, { ...options, cursor: second.cursor });
    expect(third).toMatchObject({ matched: 25, changed: 25, done: true });
    expect(third.cursor).toBeUndefined();
    expect((await client.get('late'))?.status).toBe('pending');
    const { items } = await client.listAudit();
    expect(items).toMatchObject([{ action: 'cancelBulk', instances: 25 }]);
  });

  it('a repeated part raises no event twice and keeps the audit count exact', async () => {
    const { client } = await openManaged(null);
    await startWaiting(client, ids('a', 30));
    const options = { limit: 10, actor: 'ann' };
    const filter = { name: 'waits' };
    const { cursor } = await client.bulk.raiseEvent(filter, 'go', options);
    await client.bulk.raiseEvent(filter, 'go', { ...options, cursor });
    // The result of the second part was lost, so its caller continues from the first.
    const rest = await client.bulk.raiseEvent(filter, 'go', { actor: 'ann', cursor });
    expect(rest).toMatchObject({ matched: 30, changed: 30, done: true });
    expect((await client.listAudit()).items).toMatchObject([{ instances: 30 }]);
    // 30 starts and 30 events.
    expect((await client.queueDepths()).messages).toBe(60);
  });

  it('a cursor continues a filter with a relative time: one audit record, no event twice', async () => {
    const { client, clock } = await openManaged(null);
    await startWaiting(client, ids('a', 30));
    const filter = { name: 'waits', createdFrom: '1h' };
    const options = { limit: 10, actor: 'ann' };
    const { cursor } = await client.bulk.raiseEvent(filter, 'go', options);
    await clock.advance('30m');
    await client.bulk.raiseEvent(filter, 'go', { ...options, cursor });
    const rest = await client.bulk.raiseEvent(filter, 'go', { actor: 'ann', cursor });
    expect(rest).toMatchObject({ matched: 30, changed: 30, done: true });
    expect((await client.listAudit()).items).toMatchObject([{ instances: 30 }]);
    expect((await client.queueDepths()).messages).toBe(60);
  });

  it('a cursor with another actor or filter writes its own audit record', async () => {
    const { client } = await openManaged(null);
    await startWaiting(client, ids('a', 6));
    const limit = 2;
    const { cursor } = await client.bulk.cancel({ name: 'waits' }, { actor: 'ann', limit });
    const next = await client.bulk.cancel({ name: 'waits' }, { actor: 'eve', limit, cursor });
    await client.bulk.cancel({ kind: 'orchestration' }, { actor: 'eve', cursor: next.cursor });
    const { items } = await client.listAudit();
    expect(items.map(({ actor, instances }) => [actor, instances])).toEqual([
      ['eve', 2],
      ['eve', 2],
      ['ann', 2],
    ]);
  });

  it('an aborted bulk operation returns how far it came and can be continued', async () => {
    const controller = new AbortController();
    const { client } = await openManaged(null, (provider) => ({
      ...provider,
      async requestCancel(requests) {
        const results = await provider.requestCancel(requests);
        controller.abort();
        return results;
      },
    }));
    await startWaiting(client, ids('a', 230));
    const { signal } = controller;
    const part = await client.bulk.cancel({ name: 'waits' }, { signal, actor: 'ann' });
    expect(part).toMatchObject({ matched: 100, changed: 100, done: false });
    const again = await client.bulk.cancel({ name: 'waits' }, { signal, cursor: part.cursor });
    expect(again).toMatchObject({ matched: 100, changed: 100, done: false, cursor: part.cursor });
    const rest = await client.bulk.cancel({ name: 'waits' }, { actor: 'ann', cursor: part.cursor });
    expect(rest).toMatchObject({ matched: 230, changed: 230, done: true });
    expect((await client.listAudit()).items).toMatchObject([{ instances: 230 }]);
  });

  it('invalid filters, limits, cursors and options reject before anything changes', async () => {
    const { client } = await openManaged(null);
    await startWaiting(client, ['a']);
    const cancel = (filter: unknown, options?: unknown) =>
      client.bulk.cancel(filter as never, options as never);
    const code = (error: string) => expect.objectContaining({ code: error });
    for (const filter of [{}, undefined, { status: undefined }, { rootsOnly: false }]) {
      await expect(cancel(filter)).rejects.toThrow(code('INVALID_OPTION'));
    }
    await expect(cancel({ kind: 'flow', version: '1' })).rejects.toThrow(code('INVALID_INPUT'));
    await expect(cancel({ nmae: 'a' })).rejects.toThrow(/Did you mean `name`\?/);
    await expect(cancel({ status: 'gone' })).rejects.toThrow(code('INVALID_INPUT'));
    for (const limit of [0, -1, 1.5, '3', Number.NaN]) {
      await expect(cancel({ name: 'waits' }, { limit })).rejects.toThrow(code('INVALID_OPTION'));
    }
    for (const cursor of ['', 'k1', 'b.x.1.1.1', 'b.abcdefgh.1.zzzzzzzzzzz.0', 7]) {
      await expect(cancel({ name: 'waits' }, { cursor })).rejects.toThrow(code('INVALID_INPUT'));
    }
    await expect(cancel({ name: 'waits' }, { dryrun: true })).rejects.toThrow(/`dryRun`/);
    await expect(cancel({ name: 'waits' }, { onProgress: 1 })).rejects.toThrow(
      code('INVALID_OPTION'),
    );
    expect((await client.get('a'))?.status).toBe('pending');
  });

  /** Cancels 250 instances in three pages. Throws if one was not visited exactly once. */
  async function checkPages(wrap: (provider: Provider) => Provider): Promise<void> {
    const { client } = await openManaged(null, wrap);
    await startWaiting(client, ids('a', 250));
    const filter = { status: ['pending', 'canceled'] } as const;
    const dryRun = await client.bulk.cancel(filter, { dryRun: true });
    expect(await client.list({ status: 'canceled' })).toEqual({ items: [] });
    expect(dryRun.matched).toBe(250);
    expect(await client.bulk.cancel(filter)).toMatchObject({ matched: 250, changed: 250 });
  }

  it('a bulk operation that skips or repeats at a page boundary, or a dry run that changes something, is detected', async () => {
    await checkPages((provider) => provider);
    const pages = (shift: number) => (provider: Provider) => ({
      ...provider,
      listInstances: (params: Parameters<Provider['listInstances']>[0]) =>
        provider.listInstances(
          params.beforeKey === undefined
            ? params
            : { ...params, beforeKey: params.beforeKey + shift },
        ),
    });
    await expect(checkPages(pages(-1))).rejects.toThrow(/250/);
    await expect(checkPages(pages(1))).rejects.toThrow(/250/);
    const changing = (provider: Provider): Provider => ({
      ...provider,
      async listInstances(params) {
        const page = await provider.listInstances(params);
        if (params.limit < 1_000) return page;
        const [newest] = page.instances;
        const stop = { reason: 'x', actor: null, cleanupMs: 0 };
        if (newest) await provider.requestCancel([{ instanceId: newest.instanceId, ...stop }]);
        return page;
      },
    });
    await expect(checkPages(changing)).rejects.toThrow(/items/);
  });
});

describeManaged('the audit of operator actions', ({ openManaged }) => {
  it('cancels and terminations are recorded if they have an actor', async () => {
    const { client } = await openManaged(null);
    await startWaiting(client, ['a', 'b', 'c']);
    await client.cancel('a', { reason: 'by a program' });
    await client.cancel('b', { reason: 'too slow', actor: 'ann' });
    await client.cancel('b', { reason: 'again', actor: 'ann' });
    await client.terminate('c', { actor: 'bob' });
    const { items } = await client.listAudit();
    expect(items).toMatchObject([
      { action: 'terminate', actor: 'bob', reason: 'terminated', instanceId: 'c', instances: 1 },
      { action: 'cancel', actor: 'ann', reason: 'too slow', instanceId: 'b', instances: 1 },
    ]);
  });

  it('listAudit() filters by action, actor, instance and time, and rejects unknown values', async () => {
    const { client, clock } = await openManaged(null);
    await startWaiting(client, ['a', 'b']);
    await client.cancel('a', { actor: 'ann' });
    await clock.advance(1_000);
    const at = clock.now();
    await client.terminate('b', { actor: 'bob' });
    const found = async (query: Parameters<Client['listAudit']>[0]) =>
      (await client.listAudit(query)).items.map(({ action }) => action);
    expect(await found({ action: ['cancel', 'delete'] })).toEqual(['cancel']);
    expect(await found({ actor: 'bob' })).toEqual(['terminate']);
    expect(await found({ instanceId: 'a' })).toEqual(['cancel']);
    expect(await found({ from: new Date(at) })).toEqual(['terminate']);
    expect(await found({ to: at })).toEqual(['cancel']);
    expect(await found({ actor: 'ann', action: 'terminate' })).toEqual([]);
    const wrong = { action: 'explode' } as never;
    await expect(client.listAudit(wrong)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(client.listAudit({ who: 'ann' } as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
  });

  it('changes of schedules, sessions and retention are recorded if they change something', async () => {
    const { client } = await openManaged(null);
    const by = { actor: 'ann', reason: 'deploy' };
    const nightly = { orchestration: quick, input: 'x', every: '1d' } as const;
    await client.schedules.put('nightly', nightly, by);
    await client.schedules.put('nightly', { ...nightly, every: '2d' }, by);
    await client.schedules.put('nightly', { ...nightly, every: '2d' }, by);
    await client.schedules.pause('nightly', by);
    await client.schedules.pause('nightly', by);
    await client.schedules.resume('nightly', by);
    await client.schedules.delete('nightly', by);
    await client.schedules.delete('nightly', by);
    await client.retention.pause(by);
    await client.retention.resume(by);
    await client.retention.resume(by);
    const { id } = await client.openSession();
    await client.sessions.shutdown(id, 'forceful', by);
    const { items } = await client.listAudit();
    expect(items.map(({ action }) => action)).toEqual([
      'sessionShutdown',
      'retentionResume',
      'retentionPause',
      'scheduleDelete',
      'scheduleResume',
      'schedulePause',
      'schedulePut',
      'schedulePut',
    ]);
    for (const record of items) expect(record).toMatchObject({ ...by, instances: 0 });
    expect(items.at(-1)?.filter).toBe('{"schedule":"nightly"}');
  });
});
