import { expect, test } from 'vitest';
import { flow } from '../../src/flows.ts';
import { orchestration, task } from '../../src/index.ts';
import { describeRemote } from '../remote/describe-remote.ts';

const greeting = flow('greeting')
  .step('greet', () => 'hello')
  .output();
const plain = orchestration('plain', () => Promise.resolve(1));
const job = task('job', () => 1);

describeRemote('listing flow runs', (open) => {
  test('list({ kind: "flow" }) returns only flow runs, locally and over HTTP', async () => {
    const definitions = { flows: [greeting], orchestrations: [plain], tasks: [job] };
    const { client, perdure, server, token } = await open(definitions);
    const first = await perdure.client.runFlow(greeting, undefined, { id: 'flow-1' });
    await client.start(plain, undefined, { id: 'plain-1' });
    await client.runTask(job, undefined, { id: 'job-1' });
    const second = await client.runFlow(greeting, undefined, { id: 'flow-2' });
    await Promise.all([first.result(), second.result()]);
    expect(await client.submit(greeting, undefined, { id: 'flow-3' }).result()).toBe('hello');
    const idsOf = (page: { readonly items: readonly { readonly id: string }[] }) =>
      page.items.map(({ id }) => id);
    const flows = ['flow-3', 'flow-2', 'flow-1'];
    for (const either of [perdure.client, client]) {
      expect(idsOf(await either.list({ kind: 'flow' }))).toEqual(flows);
      const named = { kind: 'flow', name: 'greeting', status: 'completed' } as const;
      expect(idsOf(await either.list(named))).toEqual(flows);
      expect(idsOf(await either.list({ kind: 'flow', name: 'plain' }))).toEqual([]);
      expect(idsOf(await either.list({ kind: 'orchestration' }))).toContain('flow-1');
    }
    const response = await fetch(`${server.url}/v1/instances?kind=flow`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(idsOf((await response.json()) as never)).toEqual(flows);
  });
});
