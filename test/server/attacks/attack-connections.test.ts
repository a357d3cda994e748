import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { networkOf } from '../../../src/server/http/connections.ts';
import { exchange, headOf, openSocket, readAll, readFirst } from '../helpers/raw-socket.ts';
import { openServer } from '../helpers/server-fixture.ts';

async function openMany(count: number, open: () => Promise<Socket>): Promise<readonly Socket[]> {
  const sockets: Socket[] = [];
  for (let n = 0; n < count; n += 1) sockets.push(await open());
  return sockets;
}

const health = 'GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n';

describe('anonymous idle connections', () => {
  it('at the connection limit the oldest idle connections are closed for new callers', async () => {
    const limits = { connections: 50, connectionsPerAddress: 100 };
    const { server, tokens } = await openServer({ limits });
    const idle = await openMany(50, () => openSocket(server.port));
    const closed = idle.slice(0, 3).map((socket) => once(socket, 'close'));
    for (const socket of idle) socket.on('end', () => socket.destroy());
    expect(await exchange(server.port, health)).toContain('{"status":"ok"}');
    const request = headOf('GET /v1/instances', { token: tokens.read });
    const caller = await openSocket(server.port);
    caller.write(request);
    expect(await readFirst(caller)).toMatch(/^HTTP\/1.1 200 /);
    // Another flood evicts the idle connections and keeps the authenticated one.
    await openMany(40, () => openSocket(server.port));
    await Promise.all(closed);
    caller.write(request);
    expect(await readFirst(caller)).toMatch(/^HTTP\/1.1 200 /);
  });

  it('unfinished requests at the address limit do not lock out a new caller', async () => {
    const limits = { connections: 100, connectionsPerAddress: 20 };
    const { server } = await openServer({ limits });
    for (const socket of await openMany(20, () => openSocket(server.port))) {
      socket.write('GET /v1/health HTTP/1.1\r\nHost: local');
    }
    expect(await exchange(server.port, health)).toContain('{"status":"ok"}');
  });

  it('anonymous connections are closed after anonymousIdleMs; authenticated ones are kept', async () => {
    const { server, tokens } = await openServer({ limits: { anonymousIdleMs: 1_500 } });
    const caller = await openSocket(server.port);
    const request = headOf('GET /v1/instances', { token: tokens.read });
    caller.write(request);
    expect(await readFirst(caller)).toMatch(/^HTTP\/1.1 200 /);
    const silent = await openSocket(server.port);
    const anonymous = await openSocket(server.port);
    anonymous.write(headOf('GET /v1/health'));
    const wrong = await openSocket(server.port);
    wrong.write(headOf('GET /v1/instances', { token: 'wrong' }));
    const [nothing, answered, refused] = await Promise.all([silent, anonymous, wrong].map(readAll));
    expect(nothing).toBe('');
    expect(answered).toMatch(/^HTTP\/1.1 200 [^]*\r\nkeep-alive: timeout=1\r\n/i);
    expect(refused).toMatch(/^HTTP\/1.1 401 [^]*\r\nkeep-alive: timeout=1\r\n/i);
    caller.write(request);
    expect(await readFirst(caller)).toMatch(/^HTTP\/1.1 200 /);
  });
});

describe('connections per address', () => {
  // Other systems have only one loopback address.
  it.runIf(process.platform === 'linux')(
    'connectionsPerAddress closes further connections of one address and admits other addresses',
    async () => {
      const limits = { connections: 20, connectionsPerAddress: 5 };
      const { server, tokens } = await openServer({ limits });
      const open = (): Promise<Socket> => openSocket(server.port, { localAddress: '127.0.0.2' });
      for (const socket of await openMany(5, open)) {
        socket.write(headOf('GET /v1/changes', { token: tokens.read }));
        expect(await readFirst(socket)).toMatch(/^HTTP\/1.1 200 /);
      }
      const sixth = await open();
      sixth.write(health);
      expect(await readAll(sixth)).toBe('');
      expect(await exchange(server.port, health)).toContain('{"status":"ok"}');
    },
  );

  it('networkOf() groups by IPv4 address or IPv6 /64 network', () => {
    expect(networkOf('10.0.0.1')).toBe('10.0.0.1');
    expect(networkOf('::ffff:10.0.0.1')).toBe('10.0.0.1');
    expect(networkOf('2001:db8:1:2:3:4:5:6')).toBe('2001:db8:1:2');
    expect(networkOf('2001:db8:1:2::6')).toBe('2001:db8:1:2');
    expect(networkOf('2001:db8::6')).toBe('2001:db8:0:0');
    expect(networkOf('::1')).toBe('0:0:0:0');
    expect(networkOf('fe80::1%eth0')).toBe('fe80:0:0:0');
    expect(networkOf('')).toBe('');
  });
});
