import { describe, expect, it } from 'vitest';
import { createToken } from 'perdure/server';
import { FakeClock } from 'perdure/testing';
import { openServer, type TestResponse, type TestServer } from './helpers/server-fixture.ts';

describe('authentication by token', () => {
  const ask = (server: TestServer, authorization: string | undefined) =>
    server.fetch('/v1/queues', authorization === undefined ? {} : { headers: { authorization } });

  it('a missing, wrong or expired token gets the same 401 response', async () => {
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

  it('a token in the query string is ignored', async () => {
    const { fetch, tokens } = await openServer();
    expect((await fetch(`/v1/queues?token=${tokens.admin}`)).status).toBe(401);
    expect((await fetch(`/v1/queues?access_token=${tokens.admin}`)).status).toBe(401);
  });

  it('wrong tokens are rate limited with 429 while a valid token still works', async () => {
    const server = await openServer({ limits: { wrongTokensPerMinute: 3 } });
    const rejected: TestResponse[] = [];
    for (let n = 0; n < 5; n += 1) {
      rejected.push(await ask(server, `Bearer ${createToken().token}`));
    }
    expect(rejected.map(({ status }) => status)).toEqual([401, 401, 401, 429, 429]);
    // The token bucket refills every 20 s.
    const seconds = Number(rejected.at(-1)?.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(10);
    expect(seconds).toBeLessThanOrEqual(20);
    expect((await ask(server, `Bearer ${server.tokens.read}`)).status).toBe(200);
  });

  it('createToken() returns a random token of 32 bytes and its SHA-256 hash', () => {
    const [one, other] = [createToken(), createToken()];
    expect(one.token).toMatch(/^perdure_[\w-]{43}$/);
    expect(one.token).not.toBe(other.token);
    expect(one.sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  it('serve() rejects an invalid token entry without repeating its secret', async () => {
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
