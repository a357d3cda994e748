import { describe, expect, it } from 'vitest';
import { createToken } from 'perdure/server';
import { openServer } from './helpers/server-fixture.ts';

/** Counts with a token that allows some definitions. */
async function openRestricted(definitions: readonly string[], starts: readonly string[]) {
  const { token, sha256 } = createToken();
  const tokens = [{ name: 'restricted', role: 'read', sha256, definitions } as const];
  const { send, perdure } = await openServer({ tokens });
  for (const name of starts) await perdure.client.start(name);
  const count = async (query: Readonly<Record<string, unknown>> = {}) =>
    (await send('countInstances', { query }, { token })).json;
  const definitionsOf = async () =>
    ((await send('listDefinitions', {}, { token })).json as { items: { name: string }[] }).items;
  return { count, definitionsOf, client: perdure.client };
}

const exactly = (count: number) => ({ count, capped: false });

describe('counts with a token restricted to definitions', () => {
  it('count() counts only instances of the definitions that the token allows', async () => {
    const starts = ['hello', 'waits', 'wait-long', 'payroll', 'payroll'];
    const { count, definitionsOf, client } = await openRestricted(['hello', 'wait*'], starts);
    expect(await count()).toEqual(exactly(3));
    expect(await count({ name: ['waits', 'payroll'] })).toEqual(exactly(1));
    expect(await count({ name: 'payroll' })).toEqual(exactly(0));
    expect(await count({ status: 'failed' })).toEqual(exactly(0));
    expect((await definitionsOf()).map(({ name }) => name)).toEqual([
      'hello',
      'wait-long',
      'waits',
    ]);
    expect(await client.count()).toEqual(exactly(5));
  });

  it('count() of a token with full names ignores the names without instances', async () => {
    const { count } = await openRestricted(['hello', 'unknown'], ['hello', 'payroll']);
    expect(await count()).toEqual(exactly(1));
  });

  it('count() adds the counts of more than 20 names up to its cap', async () => {
    const names = Array.from({ length: 45 }, (_, index) => `wait-${index}`);
    const { count } = await openRestricted(['wait*'], [...names, 'payroll']);
    expect(await count()).toEqual(exactly(45));
    expect(await count({ cap: 45 })).toEqual(exactly(45));
    for (const cap of [1, 20, 40, 44])
      expect(await count({ cap })).toEqual({ count: cap, capped: true });
  });

  it('count() beyond 200 names is a lower bound', async () => {
    const names = Array.from({ length: 201 }, (_, index) => `wait-${index}`);
    const { count } = await openRestricted(['wait*'], names);
    expect(await count()).toEqual({ count: 200, capped: true });
  });
});
