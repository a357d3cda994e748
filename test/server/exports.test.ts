import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { orchestration, type Logger } from 'perdure';
import { createHandler, createToken, type ServerToken } from 'perdure/server';
import { LocalClient } from '../../src/client/local-client.ts';
import { headOf, openSocket } from './helpers/raw-socket.ts';
import { describeServer, openServer, type TestServer } from './helpers/server-fixture.ts';
import { longPoll, readGauge } from './helpers/server-load.ts';

type Provider = ReturnType<typeof LocalClient.internals>['backend']['provider'];

function providerOf({ perdure }: TestServer): Provider {
  return LocalClient.internals(perdure.client).backend.provider;
}

/** Makes every history endless by returning only full pages. */
function makeEndless(server: TestServer): { readonly pagesRead: () => number } {
  const provider = providerOf(server);
  const read = provider.readInstanceHistory.bind(provider);
  let pages = 0;
  const spy = vi.spyOn(provider, 'readInstanceHistory').mockImplementation(async (params) => {
    pages += 1;
    const [event] = await read({ ...params, after: 0, limit: 1 });
    return event === undefined ? [] : Array.from({ length: params.limit }, () => event);
  });
  onTestFinished(() => spy.mockRestore());
  return { pagesRead: () => pages };
}

const first = orchestration('first', async (_ctx, input: string) => input);
const second = orchestration('second', async (_ctx, input: string) => input);
const worker = { orchestrations: [first, second] };
const exportOf = 'GET /v1/instances/a/export';

describe('exporting a history', () => {
  it('an export ends when its token is revoked, even while unread', async () => {
    const [keeps, loses] = [createToken(), createToken()];
    const kept: ServerToken = { name: 'keeps', role: 'admin', sha256: keeps.sha256 };
    const lost: ServerToken = { name: 'loses', role: 'read', sha256: loses.sha256 };
    let list = [kept, lost];
    const opened = await openServer({ tokens: () => list, authMaxAge: 20, worker });
    const server: TestServer = {
      ...opened,
      ask: async (name, parts) =>
        (await opened.send(name, parts as object, { token: keeps.token })).text as never,
    };
    await (await server.perdure.client.start(first, 'x'.repeat(1_000), { id: 'a' })).result();
    makeEndless(server);
    const [reads, stalls] = [
      await openSocket(server.server.port),
      await openSocket(server.server.port),
    ];
    const ended = new Promise<void>((resolve) => {
      reads.once('end', resolve);
      reads.once('close', resolve);
    });
    reads.resume();
    stalls.pause();
    for (const socket of [reads, stalls]) socket.write(headOf(exportOf, loses));
    await expect.poll(() => readGauge(server, 'streams'), longPoll).toBe(2);
    list = [kept];
    await ended;
    await expect.poll(() => readGauge(server, 'streams'), longPoll).toBe(0);
    expect(await server.ask('prometheus', {})).toContain(
      'perdure_server_refused_total{status="401",reason="revoked"} 2',
    );
  });

  it('an aborted, unread export of a mounted handler releases its stream', async () => {
    const server = await openServer();
    await server.perdure.client.start('nobody-runs-it', undefined, { id: 'a' });
    const { pagesRead } = makeEndless(server);
    const limits = { streams: 1 };
    const handler = createHandler(server.perdure.client, { insecure: true, limits });
    onTestFinished(() => handler.close());
    const ask = (signal?: AbortSignal): Promise<Response> =>
      handler(
        new Request('http://localhost/v1/instances/a/export', {
          headers: { host: 'localhost' },
          ...(signal !== undefined && { signal }),
        }),
      );
    const caller = new AbortController();
    const first = await ask(caller.signal);
    expect([first.status, (await ask()).status]).toEqual([200, 503]);
    caller.abort();
    const second = await ask();
    expect(second.status).toBe(200);
    await second.body?.cancel();
    expect(pagesRead()).toBe(0);
  });

  it('an export that the store rejects returns 500 and is logged', async () => {
    const failed: unknown[] = [];
    const ignore = (): void => undefined;
    const logger: Logger = {
      debug: ignore,
      info: ignore,
      warn: ignore,
      error: (fields) => void failed.push({ ...fields }),
    };
    const server = await openServer({ logger });
    const spy = vi
      .spyOn(providerOf(server), 'getInstances')
      .mockRejectedValue(new Error('disk on fire'));
    onTestFinished(() => spy.mockRestore());
    const { status } = await server.send('exportHistory', { params: { id: 'a' } });
    expect(status).toBe(500);
    expect(failed).toEqual([
      expect.objectContaining({ error: new Error('disk on fire'), route: 'exportHistory' }),
    ]);
  });
});

describeServer('exporting a history', (open) => {
  it('an export contains no event of a later instance with the same id', async () => {
    const server = await open({ worker });
    const { client } = server.perdure;
    await (await client.start(first, 'of the first', { id: 'a' })).result();
    const provider = providerOf(server);
    const read = provider.readInstanceHistory.bind(provider);
    const spy = vi.spyOn(provider, 'readInstanceHistory').mockImplementation(async (params) => {
      spy.mockImplementation(read);
      await client.deleteInstance('a', { force: true });
      await (await client.start(second, 'of the second', { id: 'a' })).result();
      return read(params);
    });
    onTestFinished(() => spy.mockRestore());
    const response = await fetch(`${server.url}/v1/instances/a/export`, {
      headers: { authorization: `Bearer ${server.tokens.read}` },
    });
    let text = '';
    const reading = (async () => {
      for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
    })();
    await expect(reading).rejects.toThrow('terminated');
    expect(text).not.toContain('second');
  });
});
