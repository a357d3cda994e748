import { expect, it, onTestFinished, vi } from 'vitest';
import { LocalClient } from '../../src/client/local-client.ts';
import { openServer } from './helpers/server-fixture.ts';

it('a session opened over HTTP wakes the session reaper of the server process', async () => {
  // The reaper polls every two hours, so only a wake-up makes it query the store again.
  const { perdure, ask } = await openServer({ worker: { pollInterval: '1h' } });
  const { provider } = LocalClient.internals(perdure.client).backend;
  const dueSessions = vi.spyOn(provider, 'dueSessions');
  onTestFinished(() => dueSessions.mockRestore());
  await ask('openSession', { body: { id: 's-1', idleTimeoutMs: 5_000, variables: {} } });
  await expect.poll(() => dueSessions.mock.calls.length).toBeGreaterThan(0);
  const queries = dueSessions.mock.calls.length;
  await ask('shutdownSession', {
    params: { id: 's-1' },
    body: { mode: 'graceful', leaving: false },
  });
  await expect.poll(() => dueSessions.mock.calls.length).toBeGreaterThan(queries);
});
