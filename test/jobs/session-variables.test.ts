import { expect, it } from 'vitest';
import { activity, orchestration, task } from '../../src/index.ts';
import { flow } from '../../src/flows.ts';
import { isolatedTask } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { makeGate } from '../tasks/gate.ts';

describeEngine(
  'variables of sessions in handlers',
  (open) => {
    const readTask = task('readTask', (ctx) => ({ session: ctx.session, headers: ctx.headers }));
    const readActivity = activity('readActivity', (ctx) => ctx.session?.variables);
    const child = orchestration('child', (ctx) => ctx.call(readActivity));
    const parent = orchestration('parent', async (ctx) => [
      await ctx.call(readActivity),
      await ctx.child(child, undefined, { headers: { more: 'yes' } }),
      ctx.headers,
    ]);

    it('handlers of a job, of its children and of flow steps read them', async () => {
      const graph = flow('steps')
        .step('read', (ctx) => ctx.session?.variables)
        .output();
      const { client } = await open({
        tasks: [readTask],
        orchestrations: [parent, child],
        activities: [readActivity],
        flows: [graph],
      });
      const variables = { tenant: 'seven', locale: 'de' };
      await using session = await client.openSession({ variables });
      const read = await session.submit(readTask, undefined, { headers: { a: 'b' } }).result();
      expect(read).toEqual({ session: { id: session.id, variables }, headers: { a: 'b' } });
      const headers = { c: 'd' };
      const results = await session.submit(parent, undefined, { headers }).result();
      expect(results).toEqual([variables, variables, headers]);
      expect(await session.submit(graph).result()).toEqual(variables);
    });

    it('each attempt reads the current values', async () => {
      const first = makeGate();
      const changed = makeGate();
      const seen: unknown[] = [];
      const twice = task(
        'twice',
        async (ctx) => {
          seen.push(ctx.session?.variables['token']);
          if (ctx.attempt > 1) return;
          first.open();
          await changed.opened;
          throw new Error('expired');
        },
        { retry: { maxAttempts: 2, initialDelay: 1 } },
      );
      const { client } = await open({ tasks: [twice] });
      await using session = await client.openSession({ variables: { token: 'old' } });
      const job = session.submit(twice);
      await first.opened;
      await session.setVariable('token', 'new');
      changed.open();
      await job.result();
      expect(seen).toEqual(['old', 'new']);
    });

    it('runs without a session or without variables have none', async () => {
      const { client } = await open({ tasks: [readTask] });
      const none = { headers: {} };
      expect(await (await client.runTask(readTask)).result()).toEqual(none);
      expect(await client.submit(readTask).result()).toEqual(none);
      await using session = await client.openSession();
      expect(await session.submit(readTask).result()).toEqual(none);
      await session.setVariable('tenant', 'seven');
      const variables = { tenant: 'seven' };
      expect(await session.submit(readTask).result()).toMatchObject({ session: { variables } });
      await session.unsetVariable('tenant');
      expect(await session.submit(readTask).result()).toEqual(none);
    });

    it('an isolated handler reads them', async () => {
      const module = `data:text/javascript,export default (ctx) => ctx.session.variables.tenant`;
      const away = isolatedTask<void, string>('away', { module });
      const { client } = await open({ tasks: [away] });
      await using session = await client.openSession({ variables: { tenant: 'seven' } });
      expect(await session.submit(away).result()).toBe('seven');
    });

    it('the header that carries the session rejects from callers', async () => {
      const { client } = await open({ tasks: [readTask] });
      const headers = { 'perdure-session': 'of-another-caller' };
      const start = async (): Promise<unknown> => client.runTask(readTask, undefined, { headers });
      await expect(start()).rejects.toMatchObject({ code: 'INVALID_OPTION' });
      expect(() => client.submit(readTask, undefined, { headers })).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      );
    });
  },
  modesWithoutTurns.filter((mode) => mode !== 'all hints dropped'),
);
