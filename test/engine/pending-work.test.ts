import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { flow } from 'perdure/flows';
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

    it('a call by name shows the maxAttempts of the definition', async () => {
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
        .toMatchObject([{ name: 'flaky', state: 'retrying', attempt: 2, maxAttempts: 3 }]);
    });

    it('a task run shows attempts, limit, last failure, next try, heartbeat and worker', async () => {
      const begun = Promise.withResolvers<void>();
      const end = Promise.withResolvers<void>();
      const mail = task(
        'mail',
        async (ctx) => {
          begun.resolve();
          await end.promise;
          ctx.heartbeat({ sent: 7 });
          throw Object.assign(new Error('503 from the host'), { code: 'BUSY' });
        },
        { retry },
      );
      const { client } = await open({ tasks: [mail], name: 'one' });
      const run = await client.runTask(mail);
      await begun.promise;
      // The worker registers in the background.
      await expect
        .poll(async () => (await client.get(run.id))?.pending, { timeout: 20_000 })
        .toMatchObject([
          { kind: 'task', state: 'running', attempt: 1, maxAttempts: 8, worker: 'one' },
        ]);
      expect((await client.why(run.id)).text).toMatch(
        /^Waiting for task `mail`: attempt 1 of 8 has been running on worker `one` for /,
      );
      end.resolve();
      await expect
        .poll(async () => (await client.get(run.id))?.pending, { timeout: 20_000 })
        .toMatchObject([
          {
            kind: 'task',
            state: 'retrying',
            attempt: 2,
            maxAttempts: 8,
            lastFailure: { message: '503 from the host', code: 'BUSY' },
            heartbeat: { sent: 7 },
          },
        ]);
      expect((await client.why(run.id)).text).toMatch(
        /^Retrying `mail`: attempt 2 of 8 starts in (60|59) min\. Last error: 503 from the host \(BUSY\)\./,
      );
    });

    it('a step of a flow shows attempts, limit, last failure and next try', async () => {
      const packing = flow('packing')
        .step('pack', { retry }, async () => {
          throw Object.assign(new Error('no boxes'), { code: 'BOXES' });
        })
        .output();
      const { client } = await open({ flows: [packing] });
      const run = await client.runFlow(packing);
      await expect
        .poll(async () => (await client.get(run.id))?.pending, { timeout: 20_000 })
        .toMatchObject([{ kind: 'activity', state: 'retrying', attempt: 2, maxAttempts: 8 }]);
      expect((await client.why(run.id)).text).toMatch(
        /^Retrying step `pack`: attempt 2 of 8 starts in (60|59) min\. Last error: no boxes \(BOXES\)\./,
      );
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
          /^Instance "order-17" has not ended after 30 ms\. Retrying `chargeCard`: attempt 2 of 8 starts in (60|59) min\. Last error: 503 from the bank \(BUSY\)\. /,
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
