import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { codeOf, openServer } from '../helpers/server-fixture.ts';

/** Counts the query strings that are parsed. */
function countParsed(): () => number {
  const spy = vi.spyOn(URLSearchParams.prototype, Symbol.iterator);
  onTestFinished(() => spy.mockRestore());
  return () => spy.mock.calls.length;
}

describe('query strings', () => {
  it('a query of 7,500 parameters returns 400 before it is parsed', async () => {
    const { fetch, tokens } = await openServer();
    const headers = { authorization: `Bearer ${tokens.read}` };
    const parsed = countParsed();
    for (const path of ['/v1/instances', '/v1/sessions', '/v1/instances/a/history']) {
      const answer = await fetch(`${path}?${'a&'.repeat(7_500)}`, { headers });
      expect([path, answer.status, codeOf(answer)]).toEqual([path, 400, 'INVALID_REQUEST']);
    }
    expect(parsed()).toBe(0);
    expect((await fetch('/v1/instances?limit=5', { headers })).status).toBe(200);
    expect(parsed()).toBe(1);
  });

  it('a query on a route without parameters returns 400 before it is parsed', async () => {
    const { fetch, tokens } = await openServer();
    const headers = { authorization: `Bearer ${tokens.read}` };
    const parsed = countParsed();
    for (const path of ['/v1/health', '/v1/queues', '/v1/instances/a']) {
      const answer = await fetch(`${path}?${'a&'.repeat(7_500)}`, { headers });
      expect([path, answer.status, codeOf(answer)]).toEqual([path, 400, 'INVALID_REQUEST']);
    }
    expect(parsed()).toBe(0);
  });

  it('a query above the queryParameters limit returns 400', async () => {
    const { fetch, tokens } = await openServer({ limits: { queryParameters: 3 } });
    const headers = { authorization: `Bearer ${tokens.read}` };
    const ask = async (query: string) =>
      (await fetch(`/v1/instances?${query}`, { headers })).status;
    expect(await ask('status=failed&status=completed&limit=5')).toBe(200);
    expect(await ask('status=failed&status=completed&status=running&limit=5')).toBe(400);
  });
});
