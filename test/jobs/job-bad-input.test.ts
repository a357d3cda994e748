import { expect, it } from 'vitest';
import { z } from 'zod';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from '../engine/describe-engine.ts';

type Untyped = (...args: readonly unknown[]) => { result(): Promise<unknown>; readonly id: string };

describeEngine(
  'invalid input to jobs and sessions',
  (open) => {
    const double = task('double', async (_ctx, n: number) => n * 2, { input: z.number() });

    it('submit() throws synchronously for an invalid call and creates nothing', async () => {
      const { client } = await open({ tasks: [double] });
      const submit = client.submit as Untyped;
      const cyclic: { self?: unknown } = {};
      cyclic.self = cyclic;
      const calls: readonly [readonly unknown[], string][] = [
        [[undefined], 'INVALID_INPUT'],
        [[null, 1], 'INVALID_INPUT'],
        [[{ kind: 'activity', name: 'a' }], 'INVALID_INPUT'],
        [[42], 'INVALID_INPUT'],
        [['', 1], 'INVALID_NAME'],
        [['double', 1, { kind: 'flow' }], 'INVALID_INPUT'],
        [['double', 1, { disposable: 'yes' }], 'INVALID_INPUT'],
        [['double', 1, { idd: 'a' }], 'INVALID_OPTION'],
        [['double', 1, null], 'INVALID_OPTION'],
        [['double', 1, 'id'], 'INVALID_OPTION'],
        [[double, 1, { id: '' }], 'INVALID_ID'],
        [[double, 1, { priority: 1_000 }], 'INVALID_OPTION'],
        [[double, 1, { version: '2' }], 'INVALID_OPTION'],
        [[double, cyclic], 'NOT_SERIALIZABLE'],
        [[double, 'x'.repeat(3_000_000)], 'PAYLOAD_TOO_LARGE'],
      ];
      for (const [args, code] of calls) {
        let thrown: unknown;
        try {
          submit(...args);
        } catch (error) {
          thrown = error;
        }
        expect([args[2], thrown]).toEqual([args[2], expect.objectContaining({ code })]);
      }
      expect(await client.list()).toEqual({ items: [] });
    });

    it('result() rejects an input that violates its schema, and the job is never sent', async () => {
      const { client } = await open({ tasks: [double] });
      const job = (client.submit as Untyped)(double, 'two');
      await expect(job.result()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      expect(await client.get(job.id)).toBeUndefined();
      expect(await client.submit(double, 2).result()).toBe(4);
    });

    it('submit() snapshots the job input when it is called', async () => {
      const echo = task('echo', (_ctx, value: { n: number }) => value);
      const { client } = await open({ tasks: [echo] });
      const value = { n: 1 };
      const job = client.submit(echo, value);
      value.n = 2;
      expect(await job.result()).toEqual({ n: 1 });
    });

    it('openSession() and session methods reject invalid options', async () => {
      const { client } = await open();
      const openSession = client.openSession.bind(client) as (options: unknown) => Promise<unknown>;
      const options: readonly [unknown, string][] = [
        [{ idleTimeout: 4_999 }, 'INVALID_OPTION'],
        [{ idleTimeout: '4h' }, 'INVALID_OPTION'],
        [{ idleTimeout: 'soon' }, 'INVALID_DURATION'],
        [{ label: '' }, 'INVALID_NAME'],
        [{ label: 7 }, 'INVALID_NAME'],
        [{ maxInFlight: 0 }, 'INVALID_OPTION'],
        [{ variables: ['a'] }, 'INVALID_INPUT'],
        [{ variables: { a: 1 } }, 'INVALID_INPUT'],
        [{ variables: { a: null } }, 'INVALID_INPUT'],
        [{ variables: JSON.parse('{"__proto__":"x"}') as unknown }, 'INVALID_INPUT'],
        [{ variables: { a: 'x'.repeat(65_537) } }, 'INVALID_INPUT'],
        [{ names: 1 }, 'INVALID_OPTION'],
        ['label', 'INVALID_OPTION'],
      ];
      for (const [given, code] of options) {
        await expect(openSession(given)).rejects.toMatchObject({ code });
      }
      await using session = await client.openSession();
      await expect(session.shutdown('now' as never)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
      await expect(session.setVariable('a', 1 as never)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
      await expect(client.sessions.list({ state: 'closed' as never })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
      await expect(client.sessions.list({}, { after: 'x' })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
      await expect(client.sessions.list({}, { limit: 0 })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
      expect((await client.sessions.list()).items).toHaveLength(1);
    });

    it('submit() inside an orchestration fails it with FORBIDDEN_IN_ORCHESTRATION', async () => {
      const { client, startWorker } = await open({ tasks: [double] });
      const careless = orchestration('careless', async () => client.submit(double, 1).result());
      await startWorker({ orchestrations: [careless] });
      const handle = await client.start(careless);
      await expect(handle.result()).rejects.toMatchObject({
        failure: { code: 'FORBIDDEN_IN_ORCHESTRATION' },
      });
    });
  },
  ['all fast paths', 'PostgreSQL', 'over HTTP'],
);
