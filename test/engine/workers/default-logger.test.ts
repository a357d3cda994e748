import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { silentLogger, type AttemptEnded } from 'perdure';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { task } from '../../../src/tasks/task.ts';
import { describeEngine } from '../describe-engine.ts';

const modes = ['all fast paths', 'no fast paths', 'no warm cache', 'PostgreSQL'];
const secret = 'a payload of user code';

/** The console lines of the default logger, without stack frames. */
let lines: string[];
beforeEach(() => {
  lines = [];
  const write = (text: string): void => void lines.push(text.split('\n')[0] ?? '');
  vi.spyOn(console, 'warn').mockImplementation(write);
  vi.spyOn(console, 'error').mockImplementation(write);
});
afterEach(() => vi.restoreAllMocks());

const found = (text: string): string | undefined => lines.find((line) => line.includes(text));
const waitFor = async (text: string): Promise<string> => {
  await expect.poll(() => found(text), { timeout: 20_000 }).toBeDefined();
  return found(text) ?? '';
};

describeEngine(
  'the default logger',
  (open) => {
    it('the default logger warns of a retry, and the attemptEnded hook gets the error', async () => {
      const ended: AttemptEnded[] = [];
      const charge = activity('charge', async (ctx, _card: string) => {
        if (ctx.attempt === 1) throw Object.assign(new Error('declined'), { details: secret });
        return 'charged';
      });
      const order = orchestration('order', async (ctx, card: string) =>
        ctx.call(charge, card, { retry: { initialDelay: 5, jitter: 0 } }),
      );
      const engine = await open({
        orchestrations: [order],
        activities: [charge],
        hooks: { attemptEnded: (attempt) => ended.push(attempt) },
      });
      const handle = await engine.client.start(order, secret, { id: 'order-17' });
      expect(await handle.result()).toBe('charged');
      expect(lines).toEqual([
        'perdure warn: activity attempt failed, will retry { instanceId: "order-17", activity: "charge", attempt: 1, retryInMs: 5, error: "Error: declined" }',
      ]);
      expect(ended).toMatchObject([
        { outcome: 'retried', retryInMs: 5, attempt: 1 },
        { outcome: 'completed', attempt: 2 },
      ]);
      expect(ended[0]?.error).toBeInstanceOf(Error);
      expect(ended[0]?.error).toMatchObject({ message: 'declined', details: secret });
      expect(ended[1]).not.toHaveProperty('error');
    });

    it('the default logger reports a failed instance and a failed task as errors', async () => {
      const pay = activity('pay', async () => {
        throw new TypeError('no account');
      });
      const order = orchestration('order', async (ctx, _card: string) => ctx.call(pay));
      const mail = task('mail', async (_ctx, _to: string) => {
        throw new Error('no such host');
      });
      const engine = await open({ orchestrations: [order], activities: [pay], tasks: [mail] });
      await engine.client.start(order, secret, { id: 'order-1' });
      const line = await waitFor('instance failed');
      expect(line).toMatch(/^perdure error: instance failed { instanceId: "order-1"/);
      expect(line).toContain('orchestration: "order"');
      expect(line).toContain('no account');
      await engine.client.runTask(mail, secret, { id: 'mail-1' });
      expect(await waitFor('task failed')).toBe(
        'perdure error: task failed { instanceId: "mail-1", task: "mail", attempt: 1, error: "Error: no such host" }',
      );
      expect(lines.join('\n')).not.toContain(secret);
    });

    it('the default logger warns of a leaked handler', async () => {
      const begun = Promise.withResolvers<void>();
      const stubborn = activity('stubborn', async () => {
        begun.resolve();
        await delay(1_000);
      });
      const order = orchestration('order', async (ctx) => ctx.call(stubborn));
      const engine = await open({
        orchestrations: [order],
        activities: [stubborn],
        cancelGrace: 10,
        activityLease: 300,
      });
      const handle = await engine.client.start(order, undefined, { id: 'order-1' });
      await begun.promise;
      await handle.cancel();
      const line = await waitFor('still runs after its grace');
      expect(line).toMatch(/^perdure warn: /);
      expect(line).toContain('instanceId: "order-1", activity: "stubborn"');
    });

    it('the default logger reports a blocked instance with the recorded and issued command', async () => {
      const go = 'go';
      const charge = activity('charge', async (_ctx, _card: string) => 'charged');
      const before = orchestration('order', async (ctx, card: string) => {
        await ctx.call(charge, card);
        await ctx.waitFor(go);
      });
      const after = orchestration('order', async (ctx, _card: string) => {
        await ctx.sleep('1h');
      });
      const engine = await open();
      const worker = await engine.startWorker({ orchestrations: [before], activities: [charge] });
      const handle = await engine.client.start(before, secret, { id: 'order-1' });
      await expect
        .poll(async () => (await engine.client.history(handle.id)).items.length)
        .toBeGreaterThan(2);
      await worker.stop();
      await engine.startWorker({ orchestrations: [after], activities: [charge] });
      await handle.raiseEvent(go);
      const line = await waitFor('replay disagrees with history');
      expect(line).toBe(
        'perdure error: replay disagrees with history, instance is blocked { instanceId: "order-1", orchestration: "order", event: 2, recorded: "activity \\"charge\\"", issued: "timer", retryInMs: 1000 }',
      );
      expect(lines.join('\n')).not.toContain(secret);
    });

    it('another logger of the worker or of Perdure.open() replaces the default one', async () => {
      const fail = activity('fail', async () => {
        throw new Error('no');
      });
      const order = orchestration('order', async (ctx) =>
        ctx.call(fail, undefined, { retry: { maxAttempts: 2, initialDelay: 1 } }),
      );
      const definitions = { orchestrations: [order], activities: [fail] };
      const quiet = await open({ ...definitions, logger: silentLogger });
      await expect((await quiet.client.start(order)).result()).rejects.toThrow('no');
      const store = await open(definitions, { logger: silentLogger });
      await expect((await store.client.start(order)).result()).rejects.toThrow('no');
      expect(lines).toEqual([]);
    });
  },
  modes,
);
