import { createServer, type AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure } from 'perdure';
import { createHandler, createToken, serve, type ServeOptions } from 'perdure/server';
import { codeOf, openServer } from './helpers/server-fixture.ts';
import { exchange } from './helpers/raw-socket.ts';

async function start(options: ServeOptions) {
  const perdure = await Perdure.open(':memory:');
  onTestFinished(() => perdure.close());
  const server = await serve(perdure, { port: 0, ...options });
  onTestFinished(() => server.close());
  return server;
}

const tokens = [{ name: 'me', role: 'read', sha256: createToken().sha256 } as const];

describe('addresses of serve()', () => {
  it('by default serve() listens on loopback only and requires no token', async () => {
    const { url, port } = await start({});
    expect(url).toBe(`http://127.0.0.1:${port}`);
    expect((await fetch(`${url}/v1/queues`)).status).toBe(200);
    expect((await fetch(`http://localhost:${port}/v1/queues`)).status).toBe(200);
    const outside = Object.values(networkInterfaces())
      .flatMap((addresses = []) => addresses)
      .find(({ family, internal }) => family === 'IPv4' && !internal);
    if (outside !== undefined) {
      await expect(fetch(`http://${outside.address}:${port}/v1/health`)).rejects.toThrow(
        'fetch failed',
      );
    }
  });

  it('serve() also listens on ::1 where the machine has IPv6', async () => {
    const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
      addresses?.some(({ address }) => address === '::1'),
    );
    const { port } = await start({});
    const answer = fetch(`http://[::1]:${port}/v1/health`).then(({ status }) => status);
    if (hasIpv6) expect(await answer).toBe(200);
    else await expect(answer).rejects.toThrow('fetch failed');
  });

  it('serve() rejects when its port is taken on ::1 and leaves 127.0.0.1 closed', async (context) => {
    const taken = createServer();
    onTestFinished(() => void taken.close());
    const port = await new Promise<number>((resolve) => {
      taken.once('error', () => resolve(0));
      taken.listen(0, '::1', () => resolve((taken.address() as AddressInfo).port));
    });
    if (port === 0) return context.skip('This machine has no IPv6.');
    await expect(start({ port })).rejects.toMatchObject({
      code: 'EADDRINUSE',
      message: expect.stringContaining('::1') as string,
    });
    await expect(fetch(`http://127.0.0.1:${port}/v1/health`)).rejects.toThrow('fetch failed');
  });

  it('a server without tokens rejects proxied requests with 403 and names the fix', async () => {
    const { url } = await start({});
    const signs = [
      { forwarded: 'for=203.0.113.9' },
      { 'x-forwarded-for': '203.0.113.9' },
      { 'X-Forwarded-Host': 'perdure.example.com' },
      { 'x-forwarded-proto': 'https' },
      { via: '1.1 proxy' },
    ];
    for (const headers of signs) {
      for (const path of ['/v1/queues', '/v1/health', '/nothing']) {
        const response = await fetch(url + path, { headers: headers as Record<string, string> });
        expect(response.status).toBe(403);
        const { error } = (await response.json()) as { error: { code: string; message: string } };
        expect(error.code).toBe('FORBIDDEN');
        expect(error.message).toMatch(/proxy.*`tokens` or `authorize`/);
      }
    }
    expect((await fetch(`${url}/v1/queues`)).status).toBe(200);
  });

  it('a server with tokens, authorize or insecure accepts proxied requests', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9', via: '1.1 proxy' };
    const secure = await start({ tokens });
    expect((await fetch(`${secure.url}/v1/queues`, { headers })).status).toBe(401);
    const hooked = await start({ authorize: () => ({ name: 'ann', role: 'read' }) });
    expect((await fetch(`${hooked.url}/v1/queues`, { headers })).status).toBe(200);
    const open = await start({ insecure: true });
    expect((await fetch(`${open.url}/v1/queues`, { headers })).status).toBe(200);
  });

  // Other systems have no 127.0.0.2 by default.
  it.runIf(process.platform === 'linux')(
    'a server on 127.0.0.2 accepts requests to that address',
    async () => {
      const { url } = await start({ host: '127.0.0.2' });
      expect((await fetch(`${url}/v1/queues`)).status).toBe(200);
    },
  );

  it('serve() on a public interface requires tokens, and on all interfaces also allowedHosts', async () => {
    for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.com']) {
      await expect(start({ host })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('tokens') as string,
      });
      await expect(start({ host, tokens: [] })).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    }
    await expect(start({ host: '0.0.0.0', tokens })).rejects.toMatchObject({
      message: expect.stringContaining('allowedHosts') as string,
    });
    const { url } = await start({ host: '0.0.0.0', tokens, allowedHosts: ['perdure.test'] });
    expect((await fetch(`${url}/v1/queues`)).status).toBe(401);
  });

  it('createHandler() requires tokens or insecure, and returns 503 after close()', async () => {
    const perdure = await Perdure.open(':memory:');
    onTestFinished(() => perdure.close());
    expect(() => createHandler(perdure.client, {})).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION' }),
    );
    const handler = createHandler(perdure.client, { insecure: true });
    const request = () =>
      new Request('http://localhost/v1/health', { headers: { host: 'localhost' } });
    expect((await handler(request())).status).toBe(200);
    handler.close();
    expect((await handler(request())).status).toBe(503);
  });

  it('serve() rejects invalid options with INVALID_OPTION', async () => {
    const bad: readonly object[] = [
      { port: -1 },
      { port: 'http' },
      { limits: { streams: 0 } },
      { limits: { stream: 5 } },
      { allowedOrigins: ['*'] },
      { allowedOrigins: ['https://app.example.com/path'] },
      { allowedHosts: 'example.com' },
      { unknown: true },
    ];
    for (const options of bad) {
      await expect(start(options)).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    }
  });
});

describe('the Host header', () => {
  const ask = async (port: number, host: string): Promise<string> => {
    const answer = await exchange(
      port,
      `GET /v1/health HTTP/1.1\r\n${host}Connection: close\r\n\r\n`,
    );
    return answer.split('\r\n')[0] ?? '';
  };

  it('requests with an allowed Host header are accepted; others get 421', async () => {
    const { port } = await start({ allowedHosts: ['perdure.test', 'with-port.test:8080'] });
    for (const host of [
      'localhost',
      `localhost:${port}`,
      '127.0.0.1:1',
      '[::1]',
      'PERDURE.test:9',
      'with-port.test:8080',
    ]) {
      expect([host, await ask(port, `Host: ${host}\r\n`)]).toEqual([host, 'HTTP/1.1 200 OK']);
    }
    const foreign = [
      'evil.example',
      'localhost.evil.example',
      'perdure.test.evil.example',
      'with-port.test',
      '127.0.0.1.evil.example',
      'a@localhost',
      'localhost:x',
      '[::1',
      '',
    ];
    for (const host of foreign) {
      expect([host, await ask(port, `Host: ${host}\r\n`)]).toEqual([
        host,
        'HTTP/1.1 421 Misdirected Request',
      ]);
    }
    expect(await ask(port, '')).toContain(' 400 ');
  });

  it('a request with an allowed Host header and no token gets UNAUTHENTICATED', async () => {
    const { fetch: ask2 } = await openServer();
    expect(codeOf(await ask2('/v1/queues'))).toBe('UNAUTHENTICATED');
  });
});
