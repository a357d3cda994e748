/** Pruning of executions through the client, with a real worker. docs/seed-tests.md maps the seed cases. */
import { expect, it } from 'vitest';
import { activity, orchestration, type Client } from 'perdure';
import {
  chain,
  complete,
  eternal,
  remainingIds,
  runExecutions,
  until,
  describeManaged,
} from './managed-store.ts';

const day = 86_400_000;

/** Continues as new every ten days. */
const monthly = orchestration('monthly', async (ctx, rounds: number): Promise<unknown> => {
  if (rounds === 0) return ctx.waitFor('go');
  await ctx.sleep('10d');
  return ctx.continueAsNew(rounds - 1);
});

async function executionIds(client: Client, id: string): Promise<readonly number[]> {
  return (await client.listExecutions(id)).items.map(({ executionId }) => executionId);
}

async function finishRounds(client: Client, id: string, rounds: number): Promise<void> {
  await runExecutions(client, id, rounds);
  await client.raiseEvent(id, 'go', 'end');
  await client.wait(id);
}

describeManaged('pruneExecutions()', ({ openManaged }) => {
  it('pruneExecutions({ keepLast }) of a running instance keeps the last executions', async () => {
    const { client } = await openManaged();
    await runExecutions(client, 'e', 9);
    const { items } = await client.listExecutions('e');
    const events = items.slice(0, 7).reduce((sum, { historyLength }) => sum + historyLength, 0);
    expect(await client.pruneExecutions('e', { keepLast: 3 })).toEqual({
      instancesProcessed: 1,
      executionsDeleted: 7,
      eventsDeleted: events,
    });
    expect(await executionIds(client, 'e')).toEqual([8, 9, 10]);
    expect(await client.pruneExecutions('e', { keepLast: 3 })).toEqual({
      instancesProcessed: 1,
      executionsDeleted: 0,
      eventsDeleted: 0,
    });
    await client.raiseEvent('e', 'go', 'still alive');
    expect(await client.wait('e')).toMatchObject({ output: 'still alive', executionId: 10 });
  });

  it('pruneExecutions() keeps the current execution for keepLast 0, 1 or no conditions', async () => {
    const { client } = await openManaged();
    for (const [id, options] of [
      ['zero', { keepLast: 0 }],
      ['one', { keepLast: 1 }],
      ['none', {}],
      ['future', { completedBefore: Date.UTC(2100, 0) }],
    ] as const) {
      await runExecutions(client, id, 3);
      expect(await client.pruneExecutions(id, options)).toMatchObject({ executionsDeleted: 3 });
      expect(await executionIds(client, id)).toEqual([4]);
    }
  });

  it('pruneExecutions() of a finished instance keeps its last execution and result', async () => {
    const { client } = await openManaged();
    await finishRounds(client, 'e', 4);
    expect(await client.pruneExecutions('e', { keepLast: 0 })).toMatchObject({
      executionsDeleted: 4,
    });
    expect(await client.get('e')).toMatchObject({ status: 'completed', output: 'end' });
    expect((await client.history('e')).items.length).toBeGreaterThan(0);
  });

  it('pruneExecutions() combines keepLast and completedBefore with AND', async () => {
    const { client, clock } = await openManaged();
    await client.start(eternal, 2, { id: 'e' });
    await until(async () => (await client.get('e'))?.executionId === 3);
    const completedBefore = clock.now() + 1;
    await clock.advance('1d');
    expect(
      await client.pruneExecutions('e', { keepLast: 2, completedBefore: completedBefore - 1 }),
    ).toMatchObject({ executionsDeleted: 0 });
    expect(await client.pruneExecutions('e', { keepLast: 2, completedBefore })).toMatchObject({
      executionsDeleted: 1,
    });
    expect(await executionIds(client, 'e')).toEqual([2, 3]);
  });

  it('pruneExecutions({ completedBefore }) deletes only executions that ended before that time', async () => {
    const { client, clock } = await openManaged({ orchestrations: [monthly] });
    await client.start(monthly, 4, { id: 'm' });
    await clock.advance('43d');
    expect(await executionIds(client, 'm')).toEqual([1, 2, 3, 4, 5]);
    // They ended 33, 23, 13 and 3 days ago.
    const completedBefore = clock.now() - 30 * day;
    expect(await client.pruneExecutions('m', { completedBefore })).toMatchObject({
      executionsDeleted: 1,
    });
    expect(await executionIds(client, 'm')).toEqual([2, 3, 4, 5]);
  });

  it('pruneExecutions() of 400 executions returns and audits one total count', async () => {
    const { client } = await openManaged();
    await runExecutions(client, 'e', 400);
    const foretold = await client.pruneExecutions('e', { keepLast: 10, dryRun: true });
    expect(foretold).toMatchObject({ instancesProcessed: 1, executionsDeleted: 391 });
    expect((await client.getInstanceInfo('e')).size.executions).toBe(401);
    expect(await client.pruneExecutions('e', { keepLast: 10 })).toEqual(foretold);
    expect((await client.getInstanceInfo('e')).size.executions).toBe(10);
    const { items } = await client.listAudit();
    expect(items).toMatchObject([{ action: 'prune', executionsDeleted: 391 }]);
  });

  it('history() and exportHistory() reject with INSTANCE_NOT_FOUND if the instance is deleted meanwhile', async () => {
    const deleting: { now?: () => Promise<unknown> } = {};
    const { client } = await openManaged({}, (store) => ({
      ...store,
      readInstanceHistory: async (range) => {
        await deleting.now?.();
        return store.readInstanceHistory(range);
      },
    }));
    for (const read of [client.history.bind(client), client.exportHistory.bind(client)]) {
      await runExecutions(client, 'e', 2);
      deleting.now = () => client.deleteInstance('e', { force: true });
      await expect(read('e')).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
      delete deleting.now;
    }
  });

  it('history() and exportHistory() of a pruned execution reject and say it was pruned', async () => {
    const { client } = await openManaged();
    await runExecutions(client, 'e', 2);
    await client.pruneExecutions('e');
    const pruned = { code: 'INVALID_INPUT', message: expect.stringContaining('was pruned') };
    await expect(client.history('e', { executionId: 1 })).rejects.toMatchObject(pruned);
    await expect(client.exportHistory('e', 1)).rejects.toMatchObject(pruned);
    expect((await client.exportHistory('e')).executionId).toBe(3);
  });

  it('pruneExecutionsBulk() skips running instances unless includeRunning is set', async () => {
    const { client } = await openManaged();
    await finishRounds(client, 'over', 3);
    await runExecutions(client, 'runs', 3);
    await complete(client, ['plain']);
    const options = { keepLast: 2 };
    expect(await client.pruneExecutionsBulk({}, options)).toMatchObject({
      instancesProcessed: 1,
      executionsDeleted: 2,
    });
    expect(await executionIds(client, 'runs')).toEqual([1, 2, 3, 4]);
    const dry = await client.pruneExecutionsBulk(
      {},
      { ...options, includeRunning: true, dryRun: true },
    );
    expect(dry).toMatchObject({ instancesProcessed: 1, executionsDeleted: 2 });
    expect(await client.pruneExecutionsBulk({}, { ...options, includeRunning: true })).toEqual(dry);
    expect(await executionIds(client, 'runs')).toEqual([3, 4]);
    expect(await remainingIds(client)).toEqual(['over', 'plain', 'runs']);
  });

  it('pruneExecutionsBulk() without conditions rejects unless the caller passes all: true', async () => {
    const { client } = await openManaged();
    await finishRounds(client, 'a', 2);
    const invalidOption = { code: 'INVALID_OPTION' };
    await expect(client.pruneExecutionsBulk()).rejects.toMatchObject(invalidOption);
    await expect(client.pruneExecutionsBulk({ limit: 1 }, {})).rejects.toMatchObject(invalidOption);
    expect(await executionIds(client, 'a')).toEqual([1, 2, 3]);
    expect(await client.pruneExecutionsBulk({}, { keepLast: 3 })).toMatchObject({
      executionsDeleted: 0,
    });
    expect(await client.pruneExecutionsBulk({}, { all: true })).toMatchObject({
      executionsDeleted: 2,
    });
  });

  it('pruneExecutionsBulk() applies the filter, and limit counts the pruned instances', async () => {
    const { client, clock } = await openManaged();
    for (const id of ['a', 'b', 'c']) await finishRounds(client, id, 2);
    await client.pruneExecutions('a');
    await clock.advance('1d');
    const filter = { completedBefore: clock.now(), name: 'eter*' };
    expect(await client.pruneExecutionsBulk({ ...filter, limit: 0 })).toMatchObject({
      executionsDeleted: 0,
    });
    expect(await client.pruneExecutionsBulk({ ...filter, limit: 1 })).toMatchObject({
      instancesProcessed: 1,
      executionsDeleted: 2,
    });
    expect(await client.pruneExecutionsBulk({ instanceIds: ['a', 'b', 'c', 'x'] })).toMatchObject({
      instancesProcessed: 1,
      executionsDeleted: 2,
    });
    expect(await client.pruneExecutionsBulk({ name: 'quick' })).toMatchObject({
      instancesProcessed: 0,
    });
  });

  it('pruneExecutions() accepts the id of a child', async () => {
    const { client } = await openManaged();
    await (await client.start(chain, { below: 1, wait: false }, { id: 'r' })).result();
    expect(await client.pruneExecutions('r-c')).toEqual({
      instancesProcessed: 1,
      executionsDeleted: 0,
      eventsDeleted: 0,
    });
  });

  it('pruneExecutionsBulk() reports progress and rejects when its signal aborts', async () => {
    const { client } = await openManaged();
    for (let index = 0; index < 20; index += 1) await finishRounds(client, `e${index}`, 1);
    const stop = new AbortController();
    let sum = 0;
    const onProgress = ({ instancesProcessed }: { instancesProcessed: number }): void => {
      sum = instancesProcessed;
      stop.abort(new Error('enough'));
    };
    await expect(
      client.pruneExecutionsBulk({}, { all: true, onProgress, signal: stop.signal }),
    ).rejects.toThrow('enough');
    expect(sum).toBeGreaterThan(0);
    expect(await client.pruneExecutionsBulk({}, { all: true })).toMatchObject({
      instancesProcessed: 20 - sum,
    });
  });

  it('pruneExecutions() with invalid options rejects and prunes nothing', async () => {
    const { client } = await openManaged();
    await runExecutions(client, 'e', 2);
    const bad = [
      null,
      5,
      { keepLast: -1 },
      { keepLast: 1.5 },
      { keepLast: Number.NaN },
      { keepLast: '1' },
      { completedBefore: -5 },
      { completedBefore: Number.NaN },
      { keep: 1 },
      { dryRun: 1 },
    ];
    for (const options of bad) {
      const invalid = { code: 'INVALID_OPTION' };
      await expect(client.pruneExecutions('e', options as never)).rejects.toMatchObject(invalid);
      await expect(client.pruneExecutionsBulk({}, options as never)).rejects.toMatchObject(invalid);
    }
    await expect(
      client.pruneExecutionsBulk({}, { all: true, includeRunning: 'yes' as never }),
    ).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    expect(await executionIds(client, 'e')).toEqual([1, 2, 3]);
  });

  it('an abandoned activity is aborted when its execution is pruned', async () => {
    const started = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<unknown>();
    const mayEnd = Promise.withResolvers<void>();
    const straggler = activity('straggler', async (ctx) => {
      ctx.signal.addEventListener('abort', () => aborted.resolve(ctx.signal.reason));
      started.resolve();
      await mayEnd.promise;
    });
    const goesOn = orchestration('goes-on', async (ctx, round: number): Promise<unknown> => {
      if (round === 1) return ctx.waitFor('go');
      void ctx.call(straggler, undefined, { cancellation: 'abandon' });
      await ctx.waitFor('next');
      return ctx.continueAsNew(1);
    });
    const { client } = await openManaged({ orchestrations: [goesOn], activities: [straggler] });
    const handle = await client.start(goesOn, 0, { id: 'g' });
    await started.promise;
    await handle.raiseEvent('next');
    await until(async () => (await handle.status()).executionId === 2);
    expect((await client.queueDepths()).activities.claimed).toBe(1);
    expect(await client.pruneExecutions('g')).toMatchObject({ executionsDeleted: 1 });
    expect(await aborted.promise).toMatchObject({ trigger: 'deleted' });
    expect((await client.queueDepths()).activities.claimed).toBe(0);
    mayEnd.resolve();
    await handle.raiseEvent('go', 'unharmed');
    expect(await handle.result()).toBe('unharmed');
  });
});
