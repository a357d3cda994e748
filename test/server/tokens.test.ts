import { describe, expect, it, vi } from 'vitest';
import { silentLogger, type Logger } from 'perdure';
import { createToken, type AuthorizeRequest, type ServerToken } from 'perdure/server';
import { openEvents } from './helpers/event-reader.ts';
import {
  codeOf,
  openServer,
  type TestResponse,
  type TestServer,
} from './helpers/server-fixture.ts';

const ask = (server: TestServer, token: string): Promise<TestResponse> =>
  server.fetch('/v1/flows', { headers: { authorization: `Bearer ${token}` } });

/** Creates a token and its entry. */
function newToken(name: string, parts: Partial<ServerToken> = {}) {
  const { token, sha256 } = createToken();
  const entry: ServerToken = { name, role: 'read', sha256, ...parts };
  return { token, sha256, entry };
}

/** Creates a logger that collects warnings. */
function warnings() {
  const lines: { readonly fields: Readonly<Record<string, unknown>>; readonly text: string }[] = [];
  const ignore = (): void => undefined;
  const logger: Logger = {
    debug: ignore,
    info: ignore,
    warn: (fields, text) => void lines.push({ fields: { ...fields }, text }),
    error: ignore,
  };
  return { lines, logger };
}

describe('token rotation', () => {
  it('a token entry with two hashes accepts both under one name', async () => {
    const [old, next] = [createToken(), createToken()];
    const tokens = [{ name: 'ci', role: 'admin', sha256: [old.sha256, next.sha256] } as const];
    const server = await openServer({ tokens });
    const body = { id: 's', idleTimeoutMs: 60_000 };
    await server.send('openSession', { body }, { token: old.token });
    const session = await server.send('getSession', { params: { id: 's' } }, { token: next.token });
    expect(session.json).toMatchObject({ owner: 'ci' });
  });

  it('serve() rejects missing, duplicate, empty-token and more than two hashes', async () => {
    const [one, two, three] = [createToken().sha256, createToken().sha256, createToken().sha256];
    const empty = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
    const bad: readonly (readonly unknown[])[] = [
      [{ name: 'a', role: 'read', sha256: '' }],
      [{ name: 'a', role: 'read', sha256: [] }],
      [{ name: 'a', role: 'read', sha256: [one, two, three] }],
      [{ name: 'a', role: 'read', sha256: empty }],
      [{ name: 'a', role: 'read', sha256: [one, empty.toUpperCase()] }],
      [{ name: 'a', role: 'read', sha256: [one, one] }],
      [{ name: 'a', role: 'read', sha256: one, definitions: [] }],
      [
        { name: 'a', role: 'read', sha256: one },
        { name: 'b', role: 'admin', sha256: one.toUpperCase() },
      ],
    ];
    for (const tokens of bad) {
      await expect(openServer({ tokens: tokens as never })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
      });
    }
  });
});

describe('tokens from a function', () => {
  it('a token from a function is added and revoked without a restart', async () => {
    const [first, second] = [newToken('first'), newToken('second')];
    let list: readonly ServerToken[] = [first.entry];
    const server = await openServer({ tokens: async () => list, authMaxAge: 1 });
    expect((await ask(server, first.token)).status).toBe(200);
    expect((await ask(server, second.token)).status).toBe(401);
    list = [second.entry];
    await expect.poll(async () => (await ask(server, first.token)).status).toBe(401);
    await expect.poll(async () => (await ask(server, second.token)).status).toBe(200);
  });

  it('the tokens function is called once for 50 concurrent requests', async () => {
    let calls = 0;
    const { token, entry } = newToken('me');
    const tokens = () => {
      calls += 1;
      return [entry];
    };
    const server = await openServer({ tokens, authMaxAge: '1h' });
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(server, token)));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(calls).toBe(1);
  });

  it('serve() rejects when the first token list fails or is invalid', async () => {
    const broken = async (): Promise<readonly ServerToken[]> => {
      throw new Error('no such vault');
    };
    await expect(openServer({ tokens: broken })).rejects.toThrow('no such vault');
    const wrong = () => [{ name: 'a', role: 'read', sha256: 'short' } as const];
    await expect(openServer({ tokens: wrong })).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });

  it('a tokens function that fails later leaves the last list in use', async () => {
    const { token, entry } = newToken('me');
    let fails = false;
    const tokens = () => {
      if (fails) throw new Error('no such vault');
      return [entry];
    };
    const server = await openServer({ tokens, authMaxAge: 1 });
    expect((await ask(server, token)).status).toBe(200);
    fails = true;
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await ask(server, token)).status).toBe(200);
    expect((await ask(server, createToken().token)).status).toBe(401);
  });
});

describe('authorize', () => {
  it('authorize() identifies callers without a known token', async () => {
    const seen: AuthorizeRequest[] = [];
    const known = newToken('by-token');
    const server = await openServer({
      tokens: [known.entry],
      authorize: async (request) => {
        seen.push(request);
        const user = request.headers.get('x-user');
        return user === null ? null : { name: user, role: 'operate' };
      },
    });
    const as = (headers: Record<string, string>) => server.fetch('/v1/flows?', { headers });
    expect((await ask(server, known.token)).status).toBe(200);
    expect(seen).toHaveLength(0);
    expect((await as({})).status).toBe(401);
    expect((await as({ 'x-user': 'ann' })).status).toBe(200);
    expect(seen[1]).toMatchObject({ method: 'GET', remoteAddress: '127.0.0.1' });
    expect(seen[1]?.path).toContain('/v1/flows');
    const headers = { 'x-user': 'ann' };
    const body = { id: 's', idleTimeoutMs: 60_000 };
    const session = await server.send('openSession', { body }, { token: '', headers });
    expect(session.json).toMatchObject({ owner: 'ann' });
    expect((await server.send('getRetention', {}, { token: '', headers })).status).toBe(200);
    const denied = await server.send('resumeRetention', {}, { token: '', headers });
    expect([denied.status, codeOf(denied)]).toEqual([403, 'FORBIDDEN']);
  });

  it('a request fails with 500 when authorize() throws or returns an invalid caller', async () => {
    for (const returned of [{}, { name: 'x', role: 'root' }, true, { name: '', role: 'read' }]) {
      const error = vi.fn<Logger['error']>();
      const server = await openServer({
        authorize: () => returned as never,
        logger: { ...silentLogger, error },
      });
      const response = await server.fetch('/v1/flows');
      expect([response.status, codeOf(response)]).toEqual([500, 'INTERNAL']);
      const message: unknown = expect.stringContaining('Return { name, role, definitions? }');
      const logged: unknown = expect.objectContaining({ message });
      expect(error).toHaveBeenCalledWith(
        expect.objectContaining({ error: logged }),
        'request failed',
      );
    }
    const authorize = () => Promise.reject(new Error('secret of the vault'));
    const server = await openServer({ authorize });
    const { status, text } = await server.fetch('/v1/flows');
    expect(status).toBe(500);
    expect(text).not.toContain('vault');
    expect((await server.fetch('/v1/health')).status).toBe(200);
  });

  it('serve() on a public interface accepts an authorize function instead of tokens', async () => {
    const allowedHosts = ['perdure.test'];
    const server = await openServer({ host: '0.0.0.0', allowedHosts, authorize: () => null });
    expect((await server.fetch('/v1/flows')).status).toBe(401);
    await expect(openServer({ authorize: 'yes' as never })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
  });
});

describe('revoked tokens and streams', () => {
  it('revoking a token ends its open streams and waits with UNAUTHENTICATED', async () => {
    const [keeps, loses] = [newToken('keeps', { role: 'admin' }), newToken('loses')];
    let list: readonly ServerToken[] = [keeps.entry, loses.entry];
    const server = await openServer({ tokens: () => list, authMaxAge: 20 });
    const as = (token: string): TestServer => ({
      ...server,
      tokens: { ...server.tokens, admin: token },
    });
    await server.perdure.client.start('nobody-runs-it', undefined, { id: 'a' });
    const lost = await openEvents(as(loses.token), 'watchChanges');
    const kept = await openEvents(as(keeps.token), 'watchChanges');
    expect(await lost.next()).toMatchObject({ kind: 'figures' });
    const wait = server.send('waitForInstance', { params: { id: 'a' } }, { token: loses.token });
    await expect
      .poll(async () => (await server.send('prometheus', {}, { token: keeps.token })).text)
      .toContain('perdure_server_under_way{what="waiting"} 1');
    list = [keeps.entry];
    expect((await lost.rest()).at(-1)).toMatchObject({ error: { code: 'UNAUTHENTICATED' } });
    const answer = await wait;
    expect([answer.status, codeOf(answer)]).toEqual([401, 'UNAUTHENTICATED']);
    expect(answer.text).not.toContain('nobody-runs-it');
    // The stream of the other token continues.
    expect(await kept.next()).toMatchObject({ kind: 'figures' });
    const { text } = await server.send('prometheus', {}, { token: keeps.token });
    expect(text).toContain('perdure_server_refused_total{status="401",reason="revoked"} 2');
    kept.close();
  });

  it('opening a stream returns 401 for an unknown token, 403 for its role', async () => {
    const reader = newToken('reader');
    const server = await openServer({ tokens: [reader.entry] });
    const as = (token: string): TestServer => ({
      ...server,
      tokens: { ...server.tokens, admin: token },
    });
    const stranger = await openEvents(as(createToken().token), 'watchChanges');
    expect(stranger.status).toBe(401);
    const parts = { params: { id: 's', jobId: 'j' }, body: { incarnation: 'incarnation-1' } };
    expect((await openEvents(as(reader.token), 'streamJob', parts)).status).toBe(403);
  });
});

describe('rejected requests', () => {
  it('rejected requests are logged with route, reason and caller, never with a token', async () => {
    const { lines, logger } = warnings();
    const reader = newToken('reader');
    const wrong = createToken().token;
    const server = await openServer({ tokens: [reader.entry], logger });
    await ask(server, wrong);
    await server.send('startInstance', { body: { name: 'x' } }, { token: reader.token });
    const origin = 'https://evil.example';
    await server.send('listFlows', {}, { token: reader.token, headers: { origin } });
    expect(lines.map(({ fields }) => fields)).toEqual([
      {
        requestId: expect.any(String) as string,
        route: 'listFlows',
        status: 401,
        reason: 'token',
        remoteAddress: '127.0.0.1',
      },
      expect.objectContaining({
        route: 'startInstance',
        status: 403,
        reason: 'role',
        caller: 'reader',
      }),
      expect.objectContaining({ status: 403, reason: 'origin', origin }),
    ]);
    const all = JSON.stringify(lines);
    for (const secret of [wrong, reader.token, reader.sha256]) expect(all).not.toContain(secret);
  });

  it('rejected requests are counted exactly while their log lines are rate limited', async () => {
    const { lines, logger } = warnings();
    const server = await openServer({ logger, limits: { wrongTokensPerMinute: 1_000 } });
    for (let n = 0; n < 100; n += 1) await server.fetch('/v1/flows');
    expect(await server.ask('prometheus', {})).toContain(
      'perdure_server_refused_total{status="401",reason="token"} 100\n',
    );
    expect(lines.length).toBeGreaterThan(10);
    expect(lines.length).toBeLessThan(80);
  });
});
