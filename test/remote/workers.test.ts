import { expect, it, vi } from 'vitest';
import { task } from '../../src/index.ts';
import { describeRemote } from './describe-remote.ts';

const mail = task('mail', async () => 'sent');

describeRemote('workers over HTTP', (open) => {
  it('workers() and unclaimedWork() return what the local client returns', async () => {
    const { client, perdure } = await open({ name: '<b>w</b>\u202e', tasks: [mail] });
    const local = await vi.waitFor(async () => {
      const workers = await perdure.client.workers();
      expect(workers).toHaveLength(1);
      return workers;
    });
    const remote = await client.workers();
    expect(remote).toMatchObject(local.map(({ ageMs: _age, lastSeenAt: _seen, ...same }) => same));
    expect(await client.unclaimedWork()).toEqual([]);
  });

  it('metrics count workers and escape the names of unclaimed definitions', async () => {
    const { perdure, server, token } = await open({ tasks: [mail] });
    await vi.waitFor(async () => expect(await perdure.client.workers()).toHaveLength(1));
    const response = await fetch(`${server.url}/v1/metrics`, {
      headers: { authorization: `Bearer ${token}` },
    });
    const text = await response.text();
    expect(text).toContain('perdure_workers{status="live"} 1\n');
    expect(text).toContain('perdure_workers{status="stale"} 0\n');
    expect(text).toContain('perdure_worker_slots{state="free"} 100\n');
    expect(text).toContain('perdure_unclaimed_definitions 0\n');
  });
});
