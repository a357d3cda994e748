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

  it('queues(), attention(), explain() and schedules.runs() return what the local client returns', async () => {
    const { client, perdure } = await open({ tasks: [mail] });
    const { client: local } = perdure;
    await local.pause({ kind: 'task', name: 'fax' }, { reason: 'no paper', actor: 'ada' });
    await local.runTask('fax', undefined, { id: 'f' });
    await local.schedules.put('nightly', { every: '1d', task: mail });
    const { id } = await local.schedules.trigger('nightly');
    await local.wait(id);
    await vi.waitFor(async () => expect(await local.workers()).toHaveLength(1));
    const queues = await client.queues();
    expect(queues).toEqual(await local.queues());
    expect(queues.map(({ name, paused, workers }) => [name, paused, workers])).toEqual([
      ['fax', 1, 0],
      ['mail', 0, 1],
    ]);
    const { at: _, ...attention } = await client.attention();
    expect(attention).toMatchObject({ findings: [{ kind: 'pausedDefinitions', count: 1 }] });
    expect((await local.attention()).findings).toEqual(attention.findings);
    const explained = await client.explain(['f', 'nobody', id]);
    expect(explained).toEqual(await local.explain(['f', 'nobody', id]));
    expect(explained.map(({ text }) => text)).toEqual([
      'Paused by `ada` with task `fax`: no paper',
      'Completed',
    ]);
    const runs = await client.schedules.runs('nightly');
    expect(runs).toEqual(await local.schedules.runs('nightly'));
    expect(runs).toMatchObject([{ id, name: 'mail', status: 'completed' }]);
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
