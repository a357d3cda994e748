import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { makeGate } from './gate.ts';

describeEngine(
  'damaged runs',
  (open) => {
    it('a run beyond maxClaims fails as poison, and its onFail handler runs', async () => {
      const told = makeGate<unknown>();
      let calls = 0;
      const deadly = task('deadly', () => void (calls += 1), {
        retry: { maxAttempts: 5 },
        onFail: { handler: (_ctx, { failure }) => told.open(failure.code) },
      });
      const { client, tamper, startWorker } = await open();
      const handle = await client.runTask('deadly', 1, { dedupeKey: 'k' });
      expect(await tamper('UPDATE worker_queue SET claims = 3')).toBe(1);
      await startWorker({ tasks: [deadly], maxClaims: 3 });
      await expect(handle.result()).rejects.toMatchObject({
        failure: { code: 'POISON', message: expect.stringContaining('Task "deadly"') as string },
      });
      expect(await told.opened).toBe('POISON');
      expect(calls).toBe(0);
      expect(await client.runTask('deadly', 1, { dedupeKey: 'k' })).toMatchObject({
        created: true,
      });
    });

    it.each(['input', 'options'])(
      'a run with undecodable %s fails without its handler and affects no other',
      async (column) => {
        let calls = 0;
        const work = task('work', () => void (calls += 1), { retry: { maxAttempts: 5 } });
        const { client, tamper, startWorker } = await open();
        const bad = await client.runTask(work, undefined, { id: 'bad', headers: { a: 'b' } });
        expect(await tamper(`UPDATE instances SET ${column} = '{"a":'`)).toBe(1);
        const good = await client.runTask(work);
        expect(await bad.status()).toMatchObject({ status: 'pending' });
        await startWorker({ tasks: [work] });
        await expect(bad.result()).rejects.toMatchObject({ failure: { code: 'UNDECODABLE' } });
        await good.result();
        expect(calls).toBe(1);
      },
    );

    it('a result that is not serializable fails the run without a retry', async () => {
      let calls = 0;
      const work = task(
        'work',
        () => {
          calls += 1;
          return 1n;
        },
        { retry: { maxAttempts: 5, initialDelay: 1 } },
      );
      const { client } = await open({ tasks: [work] });
      await expect((await client.runTask(work)).result()).rejects.toMatchObject({
        failure: { code: 'NOT_SERIALIZABLE' },
      });
      expect(calls).toBe(1);
    });
  },
  modesWithoutTurns,
);
