import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

const names = ['all fast paths', 'no fast paths', 'all hints dropped', 'PostgreSQL'];

describeEngine(
  'rules of steps',
  (open) => {
    it('concurrent starts of one id run its step once', async () => {
      let calls = 0;
      const run = orchestration('run', (ctx) => ctx.run('once', () => (calls += 1)));
      const { client } = await open({ orchestrations: [run] });
      const handles = await Promise.all(
        Array.from({ length: 10 }, () => client.start(run, undefined, { id: 'same' })),
      );
      await Promise.all(handles.map((handle) => handle.result()));
      expect(calls).toBe(1);
    });

    it('more steps than stepConcurrency run in turn', async () => {
      let running = 0;
      let most = 0;
      const run = orchestration('run', (ctx) =>
        ctx.all(
          Array.from({ length: 10 }, (_, index) =>
            ctx.run('wait', async () => {
              running += 1;
              most = Math.max(most, running);
              await setTimeout(5);
              running -= 1;
              return index;
            }),
          ),
        ),
      );
      const { client } = await open({ orchestrations: [run], stepConcurrency: 2 });
      const handles = await Promise.all([client.start(run), client.start(run)]);
      const results = await Promise.all(handles.map((handle) => handle.result()));
      expect(results).toEqual([Array.from(Array(10).keys()), Array.from(Array(10).keys())]);
      expect(most).toBe(2);
    });

    it('a stopped worker records the running step, and another worker runs the next', async () => {
      const ran: string[] = [];
      const started = Promise.withResolvers<void>();
      const run = orchestration('run', async (ctx) => {
        await ctx.run('first', async () => {
          ran.push('first');
          started.resolve();
          await setTimeout(30);
        });
        await ctx.run('second', () => void ran.push('second'));
        return ran.length;
      });
      const { client, startWorker } = await open(undefined);
      const worker = await startWorker({ orchestrations: [run] });
      const handle = await client.start(run, undefined);
      await started.promise;
      await worker.stop();
      expect(ran).toEqual(['first']);
      await startWorker({ orchestrations: [run] });
      await handle.result();
      expect(ran).toEqual(['first', 'second']);
    });

    it('a step that ignores the stop of its worker runs again on another', async () => {
      let calls = 0;
      const started = Promise.withResolvers<void>();
      const run = orchestration('run', (ctx) =>
        ctx.run('stubborn', async () => {
          calls += 1;
          started.resolve();
          if (calls === 1) await setTimeout(1_500);
          return calls;
        }),
      );
      const { client, startWorker } = await open(undefined);
      const worker = await startWorker({
        orchestrations: [run],
        shutdownGrace: 10,
        cancelGrace: 10,
      });
      const handle = await client.start(run, undefined);
      await started.promise;
      await worker.stop();
      await startWorker({ orchestrations: [run] });
      expect(await handle.result()).toBe(2);
    });

    it('a pause lets the running step end and starts no other; a resume continues', async () => {
      const ran: string[] = [];
      const run = orchestration('run', async (ctx) => {
        for (const name of ['a', 'b', 'c']) {
          await ctx.run(name, async () => {
            ran.push(name);
            if (name === 'a') await setTimeout(50);
          });
        }
      });
      const { client } = await open({ orchestrations: [run] });
      const handle = await client.start(run, undefined, { id: 'paused' });
      await expect.poll(() => ran).toEqual(['a']);
      await client.pause('paused');
      await setTimeout(120);
      expect(ran).toEqual(['a']);
      const kinds = (await client.history('paused')).items.map(({ event }) => event.kind);
      expect(kinds).toEqual(['executionStarted', 'stepCompleted']);
      await client.resume('paused');
      await handle.result();
      expect(ran).toEqual(['a', 'b', 'c']);
    });

    it('terminate aborts the signal of a running step', async () => {
      const started = Promise.withResolvers<void>();
      const aborted = Promise.withResolvers<string>();
      const run = orchestration('run', (ctx) =>
        ctx.run('long', (step) => {
          step.signal.addEventListener('abort', () =>
            aborted.resolve((step.signal.reason as { trigger: string }).trigger),
          );
          started.resolve();
          return aborted.promise;
        }),
      );
      const { client } = await open({ orchestrations: [run], orchestrationLease: 400 });
      const handle = await client.start(run, undefined);
      await started.promise;
      await handle.terminate();
      expect(await aborted.promise).toBe('lease_lost');
      expect((await handle.status()).status).toBe('terminated');
    });

    it('a retry from the failure runs a failed step again with fresh attempts', async () => {
      const attempts: number[] = [];
      let isBroken = true;
      const run = orchestration('run', async (ctx) => {
        const first = await ctx.run('first', () => attempts.length);
        const second = await ctx.run(
          'flaky',
          ({ attempt }) => {
            attempts.push(attempt);
            if (isBroken) throw new Error('broken');
            return 'fixed';
          },
          { retry: { maxAttempts: 2, initialDelay: 1 } },
        );
        return [first, second];
      });
      const { client } = await open({ orchestrations: [run] });
      const handle = await client.start(run, undefined, { id: 'retried' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      isBroken = false;
      await client.retry('retried', { from: 'failure' });
      expect(await client.handle('retried').result()).toEqual([0, 'fixed']);
      expect(attempts).toEqual([1, 2, 1]);
    });

    it('another name or kind at the place of a recorded step is nondeterminism', async () => {
      const deploy = (version: 'step' | 'other' | 'sleep') =>
        orchestration('deployed', async (ctx) => {
          if (version === 'sleep') await ctx.sleep(1);
          else await ctx.run(version, () => 1);
          await ctx.waitFor('go');
        });
      for (const changed of ['other', 'sleep'] as const) {
        const { client, startWorker } = await open(undefined);
        const old = await startWorker({ orchestrations: [deploy('step')], warmCacheBytes: 0 });
        const handle = await client.start(deploy('step'), undefined, { id: 'x' });
        await expect
          .poll(async () => (await client.history('x')).items.at(-1)?.event.kind)
          .toBe('eventAwaited');
        await old.stop();
        await startWorker({ orchestrations: [deploy(changed)], onNondeterminism: 'fail' });
        await client.raiseEvent('x', 'go');
        await expect(handle.result()).rejects.toMatchObject({
          failure: {
            code: 'NONDETERMINISM',
            message: expect.stringContaining('records step "step" as operation 1') as string,
          },
        });
      }
    });

    it('rejects invalid names, closures, options and results with typed errors', async () => {
      const codes = orchestration('codes', async (ctx) => {
        const found: string[] = [];
        const calls: (() => Promise<unknown>)[] = [
          () => ctx.run('', () => 1),
          () => ctx.run('x', 5 as never),
          () => ctx.run('x', () => 1, { tries: 2 } as never),
          () => ctx.run('x', () => 1, { retry: { maxAttempts: 0 } }),
          () => ctx.run('x', () => 1, { timeout: 'soon' as never }),
          () => ctx.run('x', () => new Date(0) as unknown),
          () => ctx.run('x', () => ctx.run('y', () => 1)),
          async () => ctx.patched(''),
        ];
        for (const call of calls) {
          try {
            await call();
            found.push('none');
          } catch (error) {
            const { code, cause } = error as { code: string; cause?: { code?: string } };
            found.push(cause?.code === undefined ? code : `${code} ${cause.code}`);
          }
        }
        return found;
      });
      const { client } = await open({ orchestrations: [codes] });
      expect(await (await client.start(codes)).result()).toEqual([
        'INVALID_NAME',
        'INVALID_INPUT',
        'INVALID_OPTION',
        'INVALID_OPTION',
        'INVALID_DURATION',
        'STEP_FAILED NOT_SERIALIZABLE',
        'STEP_FAILED INSIDE_STEP',
        'INVALID_NAME',
      ]);
    });
  },
  names,
);
