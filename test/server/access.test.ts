import { describe, expect, it } from 'vitest';
import { createToken } from 'perdure/server';
import { FakeClock } from 'perdure/testing';
import type { RouteShape } from '../../src/server/routes/route.ts';
import { routes, type RouteName } from '../../src/server/routes/table.ts';
import { allRoles, codeOf, openServer, type Parts, type TestServer } from './server-fixture.ts';

const all = Object.entries<RouteShape>(routes) as [RouteName, RouteShape][];

/** Parts that fit every path and no schema of a body, so that nothing is done where the caller is let in. */
function harmless({ params }: RouteShape): Parts {
  const names = Object.keys(params?.shape ?? {});
  return {
    params: Object.fromEntries(names.map((name) => [name, 'nobody'])),
    body: { unknownField: 1 },
  };
}

describe('who may do what', () => {
  it('each route lets in the roles that its table says, and no others', async () => {
    const { send, tokens } = await openServer({ limits: { wrongTokensPerMinute: 10_000 } });
    const seen: Record<string, readonly string[]> = {};
    const wanted: Record<string, readonly string[]> = {};
    for (const [name, shape] of all) {
      // A stream that is let in stays open: whether it was is in its headers.
      const signal = (): AbortSignal => AbortSignal.timeout(shape.as === 'events' ? 300 : 30_000);
      const isLetIn = async (token: string): Promise<boolean> => {
        try {
          const { status } = await send(name, harmless(shape), { token, signal: signal() });
          return status !== 401 && status !== 403;
        } catch (error) {
          if ((error as Error).name === 'TimeoutError') return true;
          throw error;
        }
      };
      const letIn: string[] = (await isLetIn('')) ? ['anybody'] : [];
      for (const role of allRoles) if (await isLetIn(tokens[role])) letIn.push(role);
      seen[name] = letIn;
      const { role } = shape;
      wanted[name] =
        role === 'public' ? ['anybody', ...allRoles] : allRoles.slice(allRoles.indexOf(role));
    }
    expect(seen).toEqual(wanted);
  });

  it('only the question of health needs no token, and everything that changes something needs a role for it', () => {
    const open = all.filter(([, { role }]) => role === 'public').map(([name]) => name);
    expect(open).toEqual(['health']);
    const reading = all.filter(([, { method, role }]) => method === 'POST' && role === 'read');
    // It only waits: many ids do not fit into an address.
    expect(reading.map(([name]) => name)).toEqual(['waitForInstances']);
    const administering = all.filter(([, { role }]) => role === 'admin').map(([name]) => name);
    expect(administering.filter((name) => /^(delete|prune|runRetention)/.test(name))).toHaveLength(
      6,
    );
  });

  it('what is no route is not there for anybody', async () => {
    const { fetch, tokens } = await openServer();
    const headers = { authorization: `Bearer ${tokens.admin}` };
    for (const path of [
      '/',
      '/v1',
      '/v1/',
      '/v2/instances',
      '/v1/instances/',
      '/v1/instances//wait',
      '/v1/instances/a/b/c',
      '/V1/instances',
      '//v1/instances',
      '/v1/%69nstances',
    ]) {
      const answer = await fetch(path, { headers });
      expect([path, answer.status, codeOf(answer)]).toEqual([path, 404, 'NO_SUCH_ROUTE']);
    }
    for (const method of ['HEAD', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const { status, headers: answered } = await fetch('/v1/instances', { method, headers });
      expect([method, status]).toEqual([method, 405]);
      expect(answered.get('allow')).toBe('GET, POST');
    }
  });
});

describe('tokens', () => {
  const ask = (server: TestServer, authorization: string | undefined) =>
    server.fetch('/v1/queues', authorization === undefined ? {} : { headers: { authorization } });

  it('no token, a wrong one and one that has expired get the same answer', async () => {
    const clock = new FakeClock({ startAt: 1_000_000 });
    const { token, sha256 } = createToken();
    const tokens = [{ name: 'guest', role: 'read', sha256, expiresAt: 2_000_000 } as const];
    const server = await openServer({ tokens, clock });
    expect((await ask(server, `Bearer ${token}`)).status).toBe(200);
    await clock.advance(1_000_000);
    const refused = [
      await ask(server, undefined),
      await ask(server, `Bearer ${createToken().token}`),
      await ask(server, `Bearer ${token}`),
      await ask(server, `Basic ${token}`),
      await ask(server, token),
      await ask(server, `Bearer ${sha256}`),
    ];
    for (const { status, json, headers } of refused) {
      expect(status).toBe(401);
      expect(headers.get('www-authenticate')).toBe('Bearer');
      expect(json).toEqual({
        error: { code: 'UNAUTHENTICATED', message: expect.stringContaining('Bearer') as string },
        requestId: expect.any(String) as string,
      });
    }
  });

  it('a token in the address counts for nothing', async () => {
    const { fetch, tokens } = await openServer();
    expect((await fetch(`/v1/queues?token=${tokens.admin}`)).status).toBe(401);
    expect((await fetch(`/v1/queues?access_token=${tokens.admin}`)).status).toBe(401);
  });

  it('many wrong tokens are slowed down, which keeps nobody out who has a right one', async () => {
    const server = await openServer({ limits: { wrongTokensPerMinute: 3 } });
    const statuses: number[] = [];
    for (let n = 0; n < 5; n += 1) {
      statuses.push((await ask(server, `Bearer ${createToken().token}`)).status);
    }
    expect(statuses).toEqual([401, 401, 401, 429, 429]);
    expect((await ask(server, `Bearer ${server.tokens.read}`)).status).toBe(200);
  });

  it('a token is 32 random bytes, and only its hash need be known', () => {
    const [one, other] = [createToken(), createToken()];
    expect(one.token).toMatch(/^perdure_[\w-]{43}$/);
    expect(one.token).not.toBe(other.token);
    expect(one.sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  it('a token that could not work is refused at the start, and never repeated in the message', async () => {
    const good = { name: 'me', role: 'read', sha256: createToken().sha256 } as const;
    const bad: readonly unknown[] = [
      'tokens',
      [{ ...good, role: 'root' }],
      [{ ...good, sha256: 'secret-secret' }],
      [{ ...good, name: '' }],
      [{ ...good, expiresAt: Number.NaN }],
      [{ ...good, token: 'secret-secret' }],
      [good, good],
    ];
    for (const tokens of bad) {
      const error = await openServer({ tokens: tokens as never }).catch(
        (reason: unknown) => reason,
      );
      expect(error).toMatchObject({ name: 'PerdureError' });
      expect((error as Error).message).not.toContain('secret-secret');
    }
  });
});
