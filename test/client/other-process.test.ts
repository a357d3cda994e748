import { fork } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, onTestFinished, test } from 'vitest';
import { LocalClient } from '../../src/client/local-client.ts';
import { systemClock } from '../../src/model/clock.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { finish, observe, temporaryStorePath } from './store-fixture.ts';

/** Opens a client with its own connection to the file, which is equivalent to another process. */
async function openClient(path: string) {
  const { provider, seen } = observe(await openSqlite({ path }));
  onTestFinished(() => provider.close());
  // Rechecks once an hour, so only hints can settle a wait.
  const client = new LocalClient({ provider, clock: systemClock, recheckMs: 3_600_000 });
  onTestFinished(() => client.close());
  return { provider, client, seen };
}

describe('an instance that ends through another connection', () => {
  test('result() resolves before the next recheck when another connection ends the instance', async () => {
    const path = await temporaryStorePath();
    const [here, there] = [await openClient(path), await openClient(path)];
    const handle = await here.client.start('order', 1, { id: 'o-1' });
    const result = handle.result();
    await finish(there.provider, 'o-1');
    expect(await result).toBe('done');
    expect(here.seen.listening).toBe(0);
  });

  test('wait() resolves for a client that did not start the instance', async () => {
    const path = await temporaryStorePath();
    const [here, there] = [await openClient(path), await openClient(path)];
    await here.client.start('order', 1, { id: 'o-1' });
    const info = there.client.wait('o-1', { timeout: '10s' });
    await finish(here.provider, 'o-1');
    expect(await info).toMatchObject({ status: 'completed', output: 'done' });
    await expect(there.client.start('order', 2, { id: 'o-1' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });
  });
});

test('a client gets the results of 300 instances that another process ends', async () => {
  const path = await temporaryStorePath();
  const { client, seen } = await openClient(path);
  const other = fork(new URL('./finisher-program.ts', import.meta.url), [path]);
  onTestFinished(async () => {
    if (other.connected) other.disconnect();
    if (other.exitCode === null) await once(other, 'exit');
  });
  const died = once(other, 'exit').then(([code]) => {
    throw new Error(`The other process ended at once, with code ${String(code)}.`);
  });
  await Promise.race([once(other, 'message'), died]);
  died.catch(() => undefined);
  const ids = Array.from({ length: 300 }, (_, index) => `o-${index}`);
  const results = await Promise.all(
    ids.map(async (id) => (await client.start('order', id, { id })).result({ timeout: '15s' })),
  );
  expect(results).toEqual(ids.map((id) => `${id} ended by another process`));
  expect(seen.listening).toBe(0);
  other.disconnect();
  expect(await once(other, 'exit')).toEqual([0, null]);
});
