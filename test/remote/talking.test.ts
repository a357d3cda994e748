import { expect, test } from 'vitest';
import { event, orchestration, update, type StreamEntry } from '../../src/index.ts';
import type { TcpProxy } from '../postgres/helpers/tcp-proxy.ts';
import { describeRemote } from './describe-remote.ts';

const add = update<number, number>('add');
const next = event<number>('next');
const stop = event('stop');

/** Talks in every way: replies, keeps state, has a status, emits, and waits for an answer. */
const talking = orchestration('talking', async (ctx) => {
  let sum = 0;
  ctx.onUpdate(add, {
    handle: (n) => {
      sum += n;
      ctx.state.set('sum', sum);
      return sum;
    },
  });
  const { token, promise } = ctx.awakeable<string>();
  ctx.state.set('token', token);
  ctx.setCustomStatus('waiting');
  ctx.emit('begun');
  const answer = await promise.catch((error: { readonly code: string }) => error.code);
  ctx.emit(answer);
  const received = await ctx.waitFor(next);
  await ctx.waitFor(stop);
  return [answer, received, sum];
});

const numbers = orchestration('numbers', async (ctx) => {
  for (let n = 0; n < 4; n += 1) ctx.emit(await ctx.waitFor(next));
});
const definitions = { orchestrations: [talking, numbers] };

/** Forwards each of the first `count` requests with this path and drops its response. */
function loseResponsesOf(
  proxy: TcpProxy,
  path: RegExp,
  count = 1,
): { readonly lost: () => number } {
  let lost = 0;
  proxy.intercept((bytes) => {
    if (lost >= count || !path.test(bytes.toString('latin1'))) return 'pass';
    lost += 1;
    return 'cutAnswer';
  });
  return { lost: () => lost };
}

async function valuesOf(entries: AsyncIterable<StreamEntry>): Promise<readonly unknown[]> {
  const values: unknown[] = [];
  for await (const entry of entries) values.push(entry.kind === 'chunk' ? entry.value : entry.kind);
  return values;
}

describeRemote('a remote client that talks to an instance', (open) => {
  test('updates, state, status, awakeables, streams and start events work over HTTP', async () => {
    const { client } = await open(definitions);
    const options = { id: 't', event: { token: next, payload: 7, key: 'k' } };
    const handle = await client.start(talking, undefined, options);
    // Raises no second event: the key is the same.
    await client.start(talking, undefined, options);
    const { value: token } = await handle.waitForState<string>('token');
    expect(await handle.waitForStatus()).toEqual({ value: 'waiting', version: 1 });
    expect(await client.update('t', add, 2)).toBe(2);
    expect(await client.update('t', add, 3)).toBe(5);
    expect((await client.state('t', 'sum'))?.value).toBe(5);
    await client.resolveAwakeable(token, 'approved');
    await handle.raiseEvent(stop);
    expect(await handle.result()).toEqual(['approved', 7, 5]);
    expect(await valuesOf(client.stream('t'))).toEqual(['begun', 'approved']);
  });

  test('update() with lost responses is retried, handled once and gets one reply', async () => {
    const { client, proxy } = await open(definitions);
    const handle = await client.start(talking, undefined, { id: 't' });
    const { value: token } = await handle.waitForState<string>('token');
    // The request itself, then the wait for its reply.
    const { lost } = loseResponsesOf(proxy, /^POST \/v1\/(instances\/t\/updates|bulk\/updates)/, 2);
    const replies = [await client.update('t', add, 2), await client.update('t', add, 3)];
    expect(lost()).toBe(2);
    expect(replies).toEqual([2, 5]);
    await client.resolveAwakeable(token, 'ok');
    await handle.raiseEvent(next, 1);
    await handle.raiseEvent(stop);
    expect(await handle.result()).toEqual(['ok', 1, 5]);
  });

  test.each(['resolve', 'reject'] as const)(
    'an answer to an awakeable with a lost response is retried, and succeeds (%s)',
    async (how) => {
      const { client, proxy } = await open(definitions);
      const handle = await client.start(talking, undefined, { id: 't' });
      const { value: token } = await handle.waitForState<string>('token');
      const { lost } = loseResponsesOf(proxy, /^POST \/v1\/awakeables\//);
      if (how === 'resolve') await client.resolveAwakeable(token, 'yes');
      else await client.rejectAwakeable(token, 'no');
      expect(lost()).toBe(1);
      // Another answer is a second one.
      await expect(client.resolveAwakeable(token, 'again')).rejects.toMatchObject({
        code: 'AWAKEABLE_ALREADY_ANSWERED',
      });
      await handle.raiseEvent(next, 1);
      await handle.raiseEvent(stop);
      expect((await handle.result())[0]).toBe(how === 'resolve' ? 'yes' : 'AWAKEABLE_REJECTED');
    },
  );

  test('a stream and a wait for state continue after an outage, without gaps and repeats', async () => {
    const { client, proxy, perdure } = await open(definitions);
    const handle = await client.start(numbers, undefined, { id: 'n' });
    const reader = client.stream('n');
    const read: unknown[] = [];
    const readOne = async (): Promise<void> => {
      const { value } = await reader.next();
      if (value?.kind === 'chunk') read.push(value.value);
    };
    await handle.raiseEvent(next, 0);
    await readOne();
    await client.start(talking, undefined, { id: 't' });
    const first = await client.waitForState('t', 'token');
    const sum = client.waitForState('t', 'sum');
    const later = readOne();
    proxy.shut();
    await proxy.refusal();
    for (const n of [1, 2]) await perdure.client.raiseEvent('n', next, n);
    await perdure.client.update('t', add, 4);
    proxy.open();
    await later;
    expect((await sum).value).toBe(4);
    expect((await client.state('t', 'token'))?.version).toBe(first.version);
    await handle.raiseEvent(next, 3);
    for await (const entry of reader) if (entry.kind === 'chunk') read.push(entry.value);
    expect(read).toEqual([0, 1, 2, 3]);
  });
});
