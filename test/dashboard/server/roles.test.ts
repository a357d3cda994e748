import { expect, it } from 'vitest';
import { createToken } from 'perdure/server';
import { writePath, type RouteShape } from '../../../src/server/routes/route.ts';
import { routes } from '../../../src/server/routes/table.ts';
import { openDashboard, type SendInit } from './helpers/dashboard-fixture.ts';

const roles = ['read', 'operate', 'admin'] as const;

/** Returns the status and the error code of a response, and ends its stream. */
async function outcomeOf(response: Response): Promise<string> {
  if (response.headers.get('content-type')?.startsWith('text/event-stream') === true) {
    await response.body?.cancel();
    return `${response.status} stream`;
  }
  const code = /"code":"(\w+)"/.exec(await response.text())?.[1] ?? '';
  return `${response.status} ${code}`;
}

it('every route admits a session cookie exactly as it admits the token of that session', async () => {
  const { send, signIn, tokens } = await openDashboard();
  const byToken: Record<string, string> = {};
  const byCookie: Record<string, string> = {};
  for (const role of roles) {
    const browser = await signIn(tokens[role]);
    const authorization = `Bearer ${tokens[role]}`;
    for (const [name, shape] of Object.entries<RouteShape>(routes)) {
      const names = Object.keys(shape.params?.shape ?? {});
      const params = Object.fromEntries(names.map((one) => [one, 'nobody']));
      const path = writePath(shape.path, params).slice(1);
      // Invalid, so that an admitted write changes nothing.
      const init: SendInit =
        shape.method === 'POST' ? { method: 'POST', body: { unknownField: 1 } } : {};
      const key = `${role} ${name}`;
      byToken[key] = await outcomeOf(await send(path, { ...init, headers: { authorization } }));
      byCookie[key] = await outcomeOf(await browser.send(path, init));
    }
  }
  expect(byCookie).toEqual(byToken);
  const outcomes = Object.values(byCookie);
  expect(outcomes.filter((one) => one === '403 FORBIDDEN').length).toBeGreaterThan(20);
  expect(outcomes.filter((one) => one.startsWith('200')).length).toBeGreaterThan(20);
  expect(outcomes.filter((one) => one.startsWith('401'))).toEqual([]);
});

it('a session of a restricted token sees its definitions only', async () => {
  const { token, sha256 } = createToken();
  const list = [{ name: 'shop', role: 'operate', sha256, definitions: 'shop-*' } as const];
  const { signIn, perdure } = await openDashboard({ tokens: list });
  await perdure.client.start('shop-order', undefined, { id: 'own' });
  await perdure.client.start('bank-order', undefined, { id: 'other' });
  const browser = await signIn(token);
  const page = (await (await browser.send('v1/instances')).json()) as { items: { id: string }[] };
  expect(page.items.map(({ id }) => id)).toEqual(['own']);
  expect((await browser.send('v1/instances/other')).status).toBe(404);
  expect((await browser.send('v1/system')).status).toBe(403);
});
