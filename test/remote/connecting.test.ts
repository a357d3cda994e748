import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { orchestration, Perdure, ProviderError } from '../../src/index.ts';
import { createToken } from '../../src/server/access/tokens.ts';
import { describeRemote } from './describe-remote.ts';

const nothing = orchestration('nothing', () => Promise.resolve());

/** Starts an HTTP server that is not Perdure. */
async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('Perdure.connect()', () => {
  test.each([
    ['a missing URL', undefined],
    ['a URL without a protocol', 'localhost:7373'],
    ['an ftp URL', 'ftp://127.0.0.1'],
    ['a URL with a password', 'http://me:secret@127.0.0.1:7373'],
    ['a URL with a token', 'http://127.0.0.1:7373?token=secret'],
  ])('connect() rejects %s with INVALID_OPTION and without its secret', async (_, url) => {
    const error = await Perdure.connect(url as string).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'INVALID_OPTION' });
    expect(String(error)).not.toContain('secret');
  });

  test.each([
    ['a misspelt option', { tokn: 'x' }],
    ['a token that is not a valid header value', { token: 'ä b\n' }],
    ['a payload limit of 0', { payloadLimitBytes: 0 }],
    ['a fetch option that is not a function', { fetch: 'fetch' }],
  ])('connect() rejects %s with INVALID_OPTION', async (_, options) => {
    const connecting = Perdure.connect('http://127.0.0.1:1', options as object);
    await expect(connecting).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });

  test('connect() to an unreachable URL rejects with a retryable error that names it', async () => {
    const error = await Perdure.connect('http://127.0.0.1:9', { retryFor: 0 }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ retryable: true, outcomeUnknown: false });
    expect(String(error)).toContain('http://127.0.0.1:9');
  });

  test('connect() rejects when the server is not Perdure', async () => {
    const url = await listen((_, response) => void response.end('<h1>It works!</h1>'));
    await expect(Perdure.connect(url)).rejects.toMatchObject({
      code: 'PROVIDER',
      retryable: false,
    });
  });

  test('connect() times out on a server that never responds', async () => {
    const url = await listen(() => undefined);
    await expect(Perdure.connect(url, { requestTimeout: 100, retryFor: 0 })).rejects.toMatchObject({
      code: 'PROVIDER',
      retryable: true,
    });
  });

  test('connect() rejects a redirect and does not forward its token', async () => {
    const tokens: (string | undefined)[] = [];
    const elsewhere = await listen((request, response) => {
      tokens.push(request.headers.authorization);
      response.end('{}');
    });
    const url = await listen((_, response) => {
      response.writeHead(307, { location: elsewhere }).end();
    });
    const connecting = Perdure.connect(url, { token: 'secret', retryFor: 0 });
    await expect(connecting).rejects.toMatchObject({ code: 'PROVIDER' });
    expect(tokens).toEqual([]);
  });

  test('connect() retries after the Retry-After delay of a 503 response', async () => {
    const times: number[] = [];
    const url = await listen((_, response) => {
      times.push(performance.now());
      if (times.length === 1) response.writeHead(503, { 'retry-after': '1' }).end();
      else response.end('{"items":[]}');
    });
    await using connection = await Perdure.connect(url);
    expect(connection.client).toBeDefined();
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(990);
  });
});

describe('an overloaded server', () => {
  /** Rejects the first event with 503 and accepts the second. */
  async function busy(error: object) {
    let events = 0;
    const url = await listen((request, response) => {
      if (request.method === 'GET') return void response.end('{"items":[]}');
      events += 1;
      if (events > 1) return void response.end('{}');
      return void response.writeHead(503).end(JSON.stringify({ error }));
    });
    const { client } = await Perdure.connect(url);
    onTestFinished(() => client.close());
    return { client, events: () => events };
  }

  test('raiseEvent() retries a 503 response when the event was not accepted', async () => {
    const { client, events } = await busy({ code: 'UNAVAILABLE', message: 'Full.' });
    await client.raiseEvent('one', 'said');
    expect(events()).toBe(2);
  });

  test('raiseEvent() repeats a call with an unknown outcome: its key makes it one event', async () => {
    const error = { code: 'UNAVAILABLE', message: 'This took too long.', outcomeUnknown: true };
    const { client, events } = await busy(error);
    await client.raiseEvent('one', 'said');
    expect(events()).toBe(2);
  });
});

describeRemote('tokens of a remote client', (open) => {
  test('connect() rejects an unknown or missing token with UNAUTHENTICATED', async () => {
    const { connect } = await open();
    await expect(connect({ token: createToken().token })).rejects.toMatchObject({
      code: 'UNAUTHENTICATED',
    });
    await expect(connect({ token: undefined })).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
  });

  test('changes with a read token reject with FORBIDDEN', async () => {
    const { token, sha256 } = createToken();
    const tokens = [{ name: 'viewer', role: 'read', sha256 } as const];
    const { client } = await open({}, { serve: { tokens }, connect: { token } });
    expect((await client.list()).items).toEqual([]);
    await expect(client.start(nothing)).rejects.toMatchObject({ code: 'FORBIDDEN' });
    await expect(client.submit(nothing).result()).rejects.toMatchObject({ code: 'FORBIDDEN' });
    await expect(client.deleteInstanceBulk({}, { all: true })).rejects.toMatchObject({
      code: 'FORBIDDEN',
    });
  });
});

describeRemote('a remote client', (open) => {
  test('withTransaction() of a remote client throws INVALID_INPUT', async () => {
    const { client } = await open();
    expect(() => client.withTransaction()).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT' }),
    );
  });

  test('a remote client used inside an orchestration rejects with FORBIDDEN_IN_ORCHESTRATION', async () => {
    const inner: { start?: () => Promise<unknown> } = {};
    const bad = orchestration('bad', async () => {
      await inner.start?.();
    });
    const { client } = await open({ orchestrations: [bad, nothing] });
    inner.start = () => client.start(nothing);
    await expect((await client.start(bad)).result()).rejects.toMatchObject({
      failure: { code: 'FORBIDDEN_IN_ORCHESTRATION' },
    });
  });
});
