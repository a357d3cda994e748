import { expect, it } from 'vitest';
import { task } from 'perdure';
import { codeOf, describeServer } from './helpers/server-fixture.ts';

const sync = task('sync', () => 1, {
  concurrency: { global: 4, perKey: 2 },
  rate: { limit: 50, per: '1s', burst: 5 },
});

const numbers = [0, -1, 1.5, 1e9, 'x', '5', true, [], {}];
const rate = { limit: 5, per: '1s' };

/** Bodies of `setLimits` that no store may accept. */
const bodies: readonly string[] = [
  ...numbers.flatMap((figure) => [
    { concurrency: { global: figure } },
    { concurrency: { perKey: figure } },
    { rate: { ...rate, limit: figure } },
  ]),
  ...numbers.slice(1).map((burst) => ({ rate: { ...rate, burst } })),
  { concurrency: { perWorker: 1 } },
  { concurrency: { global: 1, perKey: 0 } },
  { concurrency: 5 },
  { concurrency: null },
  { rate: 5 },
  { rate: {} },
  { rate: { limit: 5 } },
  { rate: { per: '1s' } },
  { rate: { ...rate, limit: null } },
  { rate: { ...rate, per: 0 } },
  { rate: { ...rate, per: -1 } },
  { rate: { ...rate, per: 'x' } },
  { rate: { ...rate, per: '32d' } },
  { rate: { limit: 1_001, per: 1 } },
  { rate: { ...rate, perKey: 'x' } },
  { rate: { ...rate, key: 'x' } },
  { kind: 'flow', concurrency: { global: 1 } },
  { name: 'other', concurrency: { global: 1 } },
  {},
].map((body) => JSON.stringify(body));

describeServer('figures of limits', (open) => {
  it('a start with an invalid weight returns 400 with a code, and starts nothing', async () => {
    const { send, ask } = await open();
    const weights = [0, -1, 1.5, 101, 1e9, 'x', null];
    const lanes = [...weights.map((weight) => ({ key: 'acme', weight })), { weight: 2 }];
    for (const lane of lanes) {
      for (const response of [
        await send('runTask', { body: { task: 'sync', ...lane } }),
        await send('startInstance', { body: { name: 'sync', ...lane } }),
      ]) {
        expect([lane, response.status]).toEqual([lane, 400]);
        expect(codeOf(response)).toMatch(/^INVALID_(REQUEST|OPTION)$/);
      }
    }
    expect((await ask('listInstances', { query: {} })).items).toEqual([]);
    expect((await ask('listLimits', { query: {} })).items).toEqual([]);
  });

  it('invalid figures return 400 with a code, and change nothing', async () => {
    const server = await open({ worker: { tasks: [sync] } });
    const { client } = server.perdure;
    const post = (path: string, body: string) =>
      server.fetch(path, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${server.tokens.admin}`,
          'content-type': 'application/json',
        },
        body,
      });
    const declared = await client.limits.list();
    expect(declared.items).toMatchObject([{ name: 'sync', effective: { global: 4, perKey: 2 } }]);
    for (const body of [...bodies, '{"concurrency":{"global":1e400}}', 'x', '[]']) {
      const response = await post('/v1/limits/sync', body);
      const code: unknown = expect.stringMatching(/^INVALID_(REQUEST|OPTION|DURATION)$/);
      expect([body, response.status, codeOf(response)]).toEqual([body, 400, code]);
    }
    // Without a name, no route matches.
    for (const path of ['/v1/limits/', '/v1/limits']) {
      const response = await post(path, '{"concurrency":{"global":1}}');
      expect([path, response.status]).toEqual([path, path === '/v1/limits' ? 405 : 404]);
      expect(codeOf(response)).toBeTypeOf('string');
    }
    expect(await client.limits.list()).toEqual(declared);
    expect((await client.listAudit({ action: 'limitsSet' })).items).toEqual([]);
    // A valid one does.
    expect((await post('/v1/limits/sync', '{"concurrency":{"global":1}}')).status).toBe(200);
    expect(await client.limits.get('sync')).toMatchObject({ effective: { global: 1, perKey: 2 } });
  });
});
