import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from './describe-engine.ts';

const modes = ['all fast paths', 'no fast paths', 'PostgreSQL', 'over HTTP'];
const retry = { maxAttempts: 8, initialDelay: '1h', maxDelay: '1h', jitter: 0 } as const;

const charge = activity('chargeCard', async (ctx, _card: string) => {
  ctx.heartbeat({ step: 3 });
  throw Object.assign(new Error('503 from the bank'), { code: 'BUSY' });
});
const order = orchestration('order', async (ctx, card: string) =>
  ctx.call(charge, card, { retry }),
);
const definitions = { orchestrations: [order], activities: [charge] };

const failed = {
  kind: 'activity',
  operation: 1,
  name: 'chargeCard',
  state: 'retrying',
  attempt: 2,
  maxAttempts: 8,
  lastFailure: { name: 'Error', message: '503 from the bank', code: 'BUSY' },
  heartbeat: { step: 3 },
};

describeEngine(
  'pending work',
  (open) => {
    it('get(), running() and history() show attempts, last failure, next try and heartbeat', async () => {
      const { client } = await open(definitions);
      const startedAt = Date.now();
      const handle = await client.start(order, 'visa', { id: 'order-17' });
      await expect
        .poll(async () => (await client.get(handle.id))?.pending, { timeout: 20_000 })
        .toMatchObject([failed]);
      const info = await handle.status();
      expect(info.input).toBe('visa');
      expect(info.pending?.[0]?.nextTryAt).toBeGreaterThan(startedAt + 3_500_000);
      expect(info.pending?.[0]).not.toHaveProperty('worker');
      expect(await client.running(handle.id)).toEqual(info.pending);
      const history = await client.history(handle.id);
      expect(history.pending).toEqual(info.pending);
      const page = await client.history(handle.id, { limit: 1 });
      expect(page).not.toHaveProperty('pending');
      const [listed] = (await client.list()).items;
      expect(listed).not.toHaveProperty('pending');
      expect(listed).not.toHaveProperty('input');
    });

    it('a running activity shows its worker and no next try', async () => {
      const begun = Promise.withResolvers<void>();
      const end = Promise.withResolvers<void>();
      const hold = activity('hold', async () => {
        begun.resolve();
        await end.promise;
      });
      const holding = orchestration('holding', async (ctx) => ctx.call(hold));
      const engine = await open({ orchestrations: [holding], activities: [hold], name: 'one' });
      const handle = await engine.client.start(holding);
      await begun.promise;
      const info = await handle.status();
      expect(info.pending).toMatchObject([
        { name: 'hold', state: 'running', attempt: 1, worker: 'one' },
      ]);
      expect(info.pending?.[0]).not.toHaveProperty('nextTryAt');
      end.resolve();
      await handle.result();
      expect(await engine.client.get(handle.id)).not.toHaveProperty('pending');
    });

    it('a call by name shows no maxAttempts', async () => {
      const flaky = activity(
        'flaky',
        async () => {
          throw new Error('503 from the bank');
        },
        { retry: { maxAttempts: 3, initialDelay: '1m' } },
      );
      const byName = orchestration('byName', async (ctx) => ctx.call('flaky'));
      const { client } = await open({ orchestrations: [byName], activities: [flaky] });
      const handle = await client.start(byName);
      await expect
        .poll(async () => (await handle.status()).pending, { timeout: 20_000 })
        .toMatchObject([{ name: 'flaky', state: 'retrying', attempt: 2 }]);
      expect((await handle.status()).pending?.[0]).not.toHaveProperty('maxAttempts');
    });

    it('get() shows the input of an ended instance and of a task run', async () => {
      const echo = orchestration('echo', async (_ctx, word: string) => word);
      const mail = task('mail', async (_ctx, _to: { readonly to: string }) => 'sent');
      const { client } = await open({ orchestrations: [echo], tasks: [mail] });
      const handle = await client.start(echo, 'hi');
      await handle.result();
      expect(await client.get(handle.id)).toMatchObject({ status: 'completed', input: 'hi' });
      const run = await client.runTask(mail, { to: 'ada' });
      await run.result();
      expect(await client.get(run.id)).toMatchObject({ kind: 'task', input: { to: 'ada' } });
    });

    it('the TIMEOUT error of result() names what the instance waits for', async () => {
      const waits = orchestration('waits', async (ctx) =>
        Promise.all([
          ctx.waitFor('approved'),
          ctx.sleep('2h'),
          ctx.child(order, 'visa', { id: 'c' }),
        ]),
      );
      const { client } = await open({ ...definitions, orchestrations: [order, waits] });
      const handle = await client.start(order, 'visa', { id: 'order-17' });
      await expect
        .poll(async () => (await client.get(handle.id))?.pending, { timeout: 20_000 })
        .toMatchObject([failed]);
      await expect(handle.result({ timeout: 30 })).rejects.toMatchObject({
        code: 'TIMEOUT',
        message: expect.stringMatching(
          /^Instance "order-17" has not ended after 30 ms\. Waiting for activity `chargeCard`: attempt 2 of 8 starts in (60|59) min\. Last error: 503 from the bank \(BUSY\)\. /,
        ) as string,
      });
      const other = await client.start(waits);
      await expect.poll(async () => (await other.status()).status).toBe('running');
      await expect(other.result({ timeout: 30 })).rejects.toMatchObject({
        code: 'TIMEOUT',
        message: expect.stringMatching(
          / Waiting for 3 operations: event `approved`; a timer \(fires in (2 h|120 min)\); child `c` of `order` \(\w+\)\. /,
        ) as string,
      });
      const unknown = await client.start('unregistered');
      await expect(unknown.result({ timeout: 30 })).rejects.toMatchObject({
        code: 'TIMEOUT',
        message: expect.stringContaining(
          'No live worker has orchestration `unregistered`',
        ) as string,
      });
    });
  },
  modes,
);
