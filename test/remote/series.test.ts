import { expect, it } from 'vitest';
import { task } from '../../src/index.ts';
import { describeRemote } from './describe-remote.ts';

const mail = task('mail', async () => 'sent');

describeRemote('minute series over HTTP', (open) => {
  it('series() returns what the local client returns', async () => {
    const { client, perdure } = await open();
    const worker = await perdure.startWorker({ tasks: [mail] });
    await (await client.runTask(mail)).result();
    await worker.stop();
    const minutes = await client.series({ name: 'mail', from: '5m' });
    expect(minutes).toMatchObject([{ starts: 1, ends: { completed: 1 }, attempts: { count: 1 } }]);
    expect(minutes).toEqual(await perdure.client.series({ name: 'mail', from: '5m' }));
    expect(await client.series()).toMatchObject([{ starts: 1 }]);
    await expect(client.series({ from: '2d' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });
});
