import { expect, test } from 'vitest';
import { event, orchestration, ProviderError, task } from '../../src/index.ts';
import type { TcpProxy } from '../postgres/helpers/tcp-proxy.ts';
import { describeRemote } from './describe-remote.ts';

const said = event<string>('said');
const listen = orchestration('listen', async (ctx) => {
  const heard: string[] = [];
  for (let word = await ctx.waitFor(said); word !== 'stop'; word = await ctx.waitFor(said)) {
    heard.push(word);
  }
  return heard;
});
const double = task('double', (_ctx, number: number) => Promise.resolve(number * 2));
const definitions = { orchestrations: [listen], tasks: [double] };

/** Forwards the next request with this path and drops its response. */
function loseResponseOf(proxy: TcpProxy, path: string): { readonly lost: () => number } {
  let lost = 0;
  proxy.intercept((bytes) => {
    if (lost > 0 || !bytes.toString('latin1').startsWith(`POST ${path}`)) return 'pass';
    lost += 1;
    return 'cutAnswer';
  });
  return { lost: () => lost };
}

describeRemote('a lost response', (open) => {
  test('start() with a lost response is retried and starts one instance', async () => {
    const { client, proxy } = await open(definitions);
    const { lost } = loseResponseOf(proxy, '/v1/instances ');
    const handle = await client.start(listen);
    expect(lost()).toBe(1);
    expect((await client.list()).items.map(({ id }) => id)).toEqual([handle.id]);
  });

  test('runTask() with a lost response still returns created: true', async () => {
    const { client, proxy } = await open(definitions);
    const { lost } = loseResponseOf(proxy, '/v1/tasks ');
    const handle = await client.runTask(double, 4);
    expect(lost()).toBe(1);
    expect(handle.created).toBe(true);
    expect(await handle.result()).toBe(8);
    expect((await client.list()).items).toHaveLength(1);
  });

  test('schedules.trigger() with a lost response is retried and starts one run', async () => {
    const { client, proxy } = await open(definitions);
    const day = { from: Date.UTC(2020, 0, 1), to: Date.UTC(2020, 0, 1, 23) };
    await client.schedules.put('s', { cron: '0 3 * * *', task: double, input: 4, overlap: 'skip' });
    const { lost } = loseResponseOf(proxy, '/v1/schedules/s/trigger');
    const { id } = await client.schedules.trigger('s', { reason: 'a test' });
    expect(lost()).toBe(1);
    expect(await client.handle(double, id).result()).toBe(8);
    expect(await client.schedules.backfill('s', day)).toEqual({ started: 1, existing: 0 });
    expect(await client.schedules.backfill('s', day)).toEqual({ started: 0, existing: 1 });
    expect((await client.list()).items).toHaveLength(2);
    expect(await client.schedules.get('s')).toMatchObject({
      definition: { overlap: 'skip' },
      lastRuns: [{ id, status: 'completed' }],
    });
    expect(await client.schedules.next('s', { count: 3 })).toHaveLength(3);
  });

  test('raiseEvent() repeats a call whose response was lost, and raises one event', async () => {
    const { client, proxy } = await open(definitions);
    const handle = await client.start(listen);
    const { lost } = loseResponseOf(proxy, `/v1/instances/${handle.id}/events`);
    await handle.raiseEvent(said, 'once');
    expect(lost()).toBe(1);
    await handle.raiseEvent(said, 'stop');
    expect(await handle.result()).toEqual(['once']);
  });

  test('start() with terminateExisting repeats a lost call, and replaces once', async () => {
    const { client, proxy, perdure } = await open(definitions);
    await client.start(listen, undefined, { id: 'one' });
    const { lost } = loseResponseOf(proxy, '/v1/instances');
    await client.start(listen, undefined, { id: 'one', onConflict: 'terminateExisting' });
    expect(lost()).toBe(1);
    const { items } = await perdure.client.listExecutions('one');
    expect(items).toHaveLength(2);
    await perdure.client.terminate('one');
  });

  test('delete() with a lost response rejects with outcomeUnknown', async () => {
    const { client, proxy } = await open(definitions);
    const handle = await client.runTask(double, 4);
    await handle.result();
    loseResponseOf(proxy, `/v1/instances/${handle.id}/delete`);
    await expect(handle.delete()).rejects.toMatchObject({ outcomeUnknown: true });
    expect(await client.get(handle.id)).toBeUndefined();
  });

  test('cancel() with a lost response is retried and keeps its reason', async () => {
    const { client, proxy } = await open(definitions);
    const handle = await client.start(listen);
    const { lost } = loseResponseOf(proxy, `/v1/instances/${handle.id}/cancel`);
    expect(await handle.cancel({ reason: 'enough', wait: true })).toMatchObject({
      found: true,
      changed: true,
      status: 'canceled',
    });
    expect(lost()).toBe(1);
    expect((await handle.status()).cancel?.reason).toBe('enough');
  });

  test('start() with an id and a lost response returns created: true', async () => {
    const { client, proxy } = await open(definitions);
    const { lost } = loseResponseOf(proxy, '/v1/instances ');
    const handle = await client.start(listen, undefined, { id: 'one' });
    expect([lost(), handle.created]).toEqual([1, true]);
    expect((await client.start(listen, undefined, { id: 'one' })).created).toBe(false);
    await handle.terminate();
  });

  test.each(['cancel', 'terminate'] as const)(
    '%s() with a lost response does not stop the run that was retried meanwhile',
    async (how) => {
      const { client, proxy, perdure } = await open(definitions);
      const handle = await client.start(listen);
      let sent = 0;
      let isRetried = false;
      proxy.intercept((bytes) => {
        if (!bytes.toString('latin1').startsWith(`POST /v1/instances/${handle.id}/${how}`))
          return 'pass';
        sent += 1;
        if (sent === 1) return 'cutAnswer';
        // The repeat waits until an operator has retried the run.
        return isRetried ? 'pass' : 'cut';
      });
      const stopped = handle[how]({ reason: 'enough' });
      await perdure.client.wait(handle.id);
      await perdure.client.retry(handle.id, { from: 'start' });
      isRetried = true;
      expect(await stopped).toMatchObject({ found: true, changed: true });
      expect(sent).toBeGreaterThan(1);
      await handle.raiseEvent(said, 'stop');
      expect(await handle.result()).toEqual([]);
    },
  );

  test('submit() with a lost response is retried and creates one job', async () => {
    const { client, proxy } = await open(definitions);
    const { lost } = loseResponseOf(proxy, '/v1/sessions/');
    const job = client.submit(double, 5);
    expect(await job.result()).toBe(10);
    expect(lost()).toBe(1);
    expect((await client.list()).items).toHaveLength(1);
  });
});

describeRemote('an unreachable server', (open) => {
  test('result() waits through a server outage', async () => {
    const { client, proxy, perdure } = await open(definitions);
    const handle = await client.start(listen);
    const result = handle.result();
    proxy.shut();
    await proxy.refusal();
    await perdure.client.raiseEvent(handle.id, said, 'stop');
    await perdure.client.wait(handle.id);
    proxy.open();
    expect(await result).toEqual([]);
  });

  test('result() during a server outage rejects with TIMEOUT and the cause', async () => {
    const { client, proxy } = await open(definitions, { connect: { requestTimeout: 500 } });
    const handle = await client.start(listen);
    proxy.shut();
    await expect(handle.result({ timeout: 200 })).rejects.toMatchObject({
      code: 'TIMEOUT',
      cause: { code: 'PROVIDER' },
    });
  });

  test('a call rejects with a retryable error when retryFor is exceeded', async () => {
    const { client, proxy } = await open(definitions, { connect: { retryFor: 300 } });
    proxy.shut();
    const error = await client.start(listen).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ operation: 'startInstance', retryable: true });
    proxy.open();
    expect((await client.list()).items).toEqual([]);
  });

  test('start() is retried until the server is reachable again', async () => {
    const { client, proxy } = await open(definitions);
    const started = client.start(listen, undefined, { id: 'later' });
    proxy.shut();
    await proxy.refusal();
    proxy.open();
    expect((await started).id).toBe('later');
  });

  test('close() during a server outage rejects pending results with CLOSED', async () => {
    const { client, proxy } = await open(definitions);
    const handle = await client.start(listen);
    const result = handle.result();
    proxy.shut();
    const [outcome] = await Promise.allSettled([result, client.close()]);
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'CLOSED' } });
    await expect(client.get(handle.id)).rejects.toMatchObject({ code: 'CLOSED' });
  });
});
