import { expect, it } from 'vitest';
import type { Client } from '../../../src/index.ts';
import type { CancelOptions } from '../../../src/client/managing/stop-request.ts';
import { activity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { describeEngine, modesWithoutTurns } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';

interface Caught {
  readonly code?: string;
  readonly trigger?: string;
  readonly reason?: string;
}

const codeOf = (error: Caught): string => error.code ?? 'no code';
const reasonOf = (error: Caught): string => error.reason ?? 'no reason';

/** An activity that runs until its signal is aborted. */
function untilStopped() {
  const started = signalled<void>();
  const hold = activity('hold', async (ctx) => {
    started.resolve();
    await ctx.canceled();
    ctx.throwIfCanceled();
  });
  return { hold, started: started.promise };
}

async function whenRunning(client: Client, id: string): Promise<void> {
  await expect.poll(async () => (await client.get(id))?.status).toBe('running');
}

describeEngine(
  'cancel() with unusual arguments',
  (open) => {
    it.each([
      ['completed', async (): Promise<number> => 1],
      ['failed', (): Promise<number> => Promise.reject(new Error('no'))],
    ] as const)(
      'cancel() and terminate() of a %s instance change nothing',
      async (status, code) => {
        const run = orchestration('run', code);
        const { client } = await open({ orchestrations: [run] });
        const { id } = await client.start(run);
        const before = await client.wait(id);
        expect(await client.cancel(id)).toEqual({ found: true, changed: false, status });
        expect(await client.cancel(id, { wait: true })).toEqual({
          found: true,
          changed: false,
          status,
        });
        expect(await client.terminate(id)).toEqual({ found: true, changed: false, status });
        expect(await client.get(id)).toEqual(before);
        expect(await client.get(id)).not.toHaveProperty('cancel');
      },
    );

    it('terminate() ends a canceling instance; later calls change nothing and keep both reasons', async () => {
      const run = orchestration('run', async (ctx) => {
        await ctx.waitFor('never').catch(() => ctx.shield(() => ctx.waitFor('neither')));
      });
      const { client } = await open({ orchestrations: [run] });
      const handle = await client.start(run);
      await whenRunning(client, handle.id);
      await handle.cancel({ reason: 'asked' });
      expect(await handle.terminate({ reason: 'told' })).toEqual({
        found: true,
        changed: true,
        status: 'terminated',
      });
      const gone = { found: true, changed: false, status: 'terminated' };
      expect(await handle.cancel()).toEqual(gone);
      expect(await handle.terminate({ reason: 'again' })).toEqual(gone);
      expect(await handle.status()).toMatchObject({
        cancel: { reason: 'asked' },
        terminated: { reason: 'told' },
      });
    });

    it.each<[string, CancelOptions, string]>([
      ['a misspelled option', { because: 'x' } as CancelOptions, 'INVALID_OPTION'],
      ['a string as options', 'stop' as CancelOptions, 'INVALID_OPTION'],
      ['a wait that is not a boolean', { wait: 'yes' as never }, 'INVALID_INPUT'],
      ['a negative cleanupTimeout', { cleanupTimeout: -1 }, 'INVALID_DURATION'],
      ['an infinite cleanupTimeout', { cleanupTimeout: Infinity }, 'INVALID_DURATION'],
      ['an actor that is not a string', { actor: 5 as never }, 'INVALID_NAME'],
    ])('cancel() with %s rejects and records no cancel', async (_what, options, code) => {
      const run = orchestration('run', async (ctx) => ctx.waitFor('never'));
      const { client } = await open({ orchestrations: [run] });
      const handle = await client.start(run);
      await whenRunning(client, handle.id);
      await expect(handle.cancel(options)).rejects.toMatchObject({ code });
      expect(await handle.status()).toMatchObject({ status: 'running' });
      expect(await handle.status()).not.toHaveProperty('cancel');
    });

    it('cancel() and terminate() with an invalid id reject with INVALID_ID', async () => {
      const { client } = await open();
      await expect(client.cancel('')).rejects.toMatchObject({ code: 'INVALID_ID' });
      await expect(client.terminate('a\nb')).rejects.toMatchObject({ code: 'INVALID_ID' });
    });

    it('a reason of one megabyte is truncated with a note for handlers and history', async () => {
      const told = signalled<string>();
      const started = signalled<void>();
      const hold = activity('hold', async (ctx) => {
        started.resolve();
        told.resolve((await ctx.canceled()).reason);
        ctx.throwIfCanceled();
      });
      const run = orchestration('run', async (ctx) => ctx.call(hold));
      const { client } = await open({
        orchestrations: [run],
        activities: [hold],
      });
      const handle = await client.start(run);
      await started.promise;
      await handle.cancel({ reason: `wordy ${'x'.repeat(1_048_576)}` });
      const seen = await told.promise;
      expect(seen).toMatch(/^wordy x+… \(cut from 1048582 characters\)$/);
      expect(seen.length).toBeLessThan(4_200);
      await expect(handle.result()).rejects.toMatchObject({ reason: seen });
      expect((await client.exportHistory(handle.id)).events).toContainEqual(
        expect.objectContaining({ kind: 'cancelRequested', reason: seen }),
      );
    });

    it.each<[string, unknown, string]>([
      ['a number', 0, '0'],
      ['an object', { why: 'no idea' }, '{"why":"no idea"}'],
      ['an error', new Error('boom'), 'boom'],
      ['null', null, 'canceled'],
      ['whitespace', ' \n\t ', 'canceled'],
      ['text with control characters', '\u0000a\r\n\u001b[31mb', 'a [31mb'],
      ['a lone surrogate', 'a\ud800', 'a\ufffd'],
      ['a function', () => 1, 'a value of type function'],
      [
        'an object whose toJSON() throws',
        { toJSON: () => JSON.parse('{') },
        'a value of type object',
      ],
    ])('cancel() converts %s as its reason to text', async (_what, reason, text) => {
      const run = orchestration('run', async (ctx) => {
        await ctx.waitFor('never');
      });
      const { client } = await open();
      const handle = await client.start(run);
      await handle.cancel({ reason: reason as string });
      expect(await handle.status()).toMatchObject({ status: 'canceled', cancel: { reason: text } });
    });
  },
  modesWithoutTurns,
);

describeEngine('cancellation in orchestration code', (open) => {
  it('cancel() of a settled operation, group, scope or shield changes nothing', async () => {
    const quick = activity('quick', async (_ctx, n: number) => n);
    const run = orchestration('run', async (ctx) => {
      const call = ctx.call(quick, 1);
      const timer = ctx.sleep(1);
      const event = ctx.waitFor('go');
      const group = ctx.all([call, timer, event]);
      const scope = ctx.scope(() => ctx.call(quick, 2));
      const shield = ctx.shield(() => ctx.call(quick, 3));
      await Promise.all([group, scope, shield]);
      for (const settled of [call, timer, event, group, scope, shield]) settled.cancel('too late');
      const [called, , came] = await group;
      return [[called, came], await scope, await shield];
    });
    const { client } = await open({ orchestrations: [run], activities: [quick] });
    const handle = await client.start(run);
    await handle.raiseEvent('go', 'went');
    expect(await handle.result()).toEqual([[1, 'went'], 2, 3]);
    const { events } = await client.exportHistory(handle.id);
    expect(events.map(({ kind }) => kind)).not.toContain('operationWithdrawn');
  });

  it('cancel() of an operation called twice keeps the first reason and withdraws once', async () => {
    const { hold, started } = untilStopped();
    const run = orchestration('run', async (ctx) => {
      const call = ctx.call(hold, undefined, { cancellation: 'wait' });
      await ctx.waitFor('go');
      call.cancel('first');
      call.cancel('second');
      return call.catch(reasonOf);
    });
    const { client } = await open({
      orchestrations: [run],
      activities: [hold],
    });
    const handle = await client.start(run);
    await started;
    await handle.raiseEvent('go', null);
    expect(await handle.result()).toBe('first');
    const { events } = await client.exportHistory(handle.id);
    expect(events.filter(({ kind }) => kind === 'operationWithdrawn')).toHaveLength(1);
  });

  it('cancel() of an operation converts its reason to text and truncates it', async () => {
    const run = orchestration('run', async (ctx) => {
      const waits = [ctx.waitFor('a'), ctx.waitFor('b'), ctx.waitFor('c')] as const;
      waits[0].cancel({ why: 'no idea' } as never);
      waits[1].cancel('x'.repeat(1_048_576));
      waits[2].cancel();
      return Promise.all(waits.map((wait) => wait.catch(reasonOf)));
    });
    const { client } = await open({ orchestrations: [run] });
    const [odd, long, none] = (await (await client.start(run)).result()) as string[];
    expect(odd).toBe('{"why":"no idea"}');
    expect(long).toMatch(/^x+… \(cut from 1048576 characters\)$/);
    expect(none).toBe('canceled');
  });

  it('a shield without a cancel settles like its code, and its timeout applies', async () => {
    const quick = activity('quick', async (_ctx, n: number) => n);
    const run = orchestration('run', async (ctx) => {
      const value = await ctx.shield(() => ctx.call(quick, 7));
      const plain = await ctx.shield(() => 8);
      const thrown = await ctx
        .shield(() => {
          throw Object.assign(new Error('mine'), { code: 'MINE' });
        })
        .catch(codeOf);
      const late = await ctx
        .shield(() => ctx.waitFor('never'), { timeout: 20 })
        .catch((error: Caught) => [error.code, error.trigger]);
      return [value, plain, thrown, late];
    });
    const { client } = await open({ orchestrations: [run], activities: [quick] });
    const handle = await client.start(run);
    expect(await handle.result()).toEqual([7, 8, 'MINE', ['OPERATION_CANCELED', 'timeout']]);
    expect(await handle.status()).toMatchObject({ status: 'completed' });
  });

  it('a cancel reaches neither nested shields nor the code between them', async () => {
    const done: string[] = [];
    const note = activity('note', async (_ctx, what: string) => void done.push(what));
    const run = orchestration('run', async (ctx) => {
      await ctx.shield(async () => {
        await ctx.waitFor('one');
        await ctx.call(note, 'outer');
        await ctx.shield(async () => {
          await ctx.waitFor('two');
          await ctx.call(note, 'inner');
        });
        await ctx.scope(() => ctx.call(note, 'scope in a shield'));
      });
      await ctx.call(note, 'outside');
    });
    const { client } = await open({ orchestrations: [run], activities: [note] });
    const handle = await client.start(run);
    await whenRunning(client, handle.id);
    await handle.cancel();
    await handle.raiseEvent('one', null);
    await handle.raiseEvent('two', null);
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(done).toEqual(['outer', 'inner', 'scope in a shield']);
    expect(await handle.status()).not.toHaveProperty('cleanupSkipped');
  });

  it('the timeout of an outer shield also ends the shields inside it', async () => {
    const run = orchestration('run', async (ctx) =>
      ctx
        .shield(() => ctx.shield(() => ctx.waitFor('never'), { timeout: '1h' }), { timeout: 20 })
        .catch((error: Caught) => [error.trigger, error.reason]),
    );
    const { client } = await open({ orchestrations: [run] });
    const [trigger, reason] = (await (await client.start(run)).result()) as string[];
    expect([trigger, reason]).toEqual(['timeout', 'the shield timed out after 20 ms']);
  });

  it.each<[string, (ctx: Parameters<Parameters<typeof orchestration>[1]>[0]) => unknown, string]>([
    ['ctx.scope() without a function', (ctx) => ctx.scope(undefined as never), 'INVALID_INPUT'],
    ['ctx.shield() of a promise', (ctx) => ctx.shield(ctx.sleep(1) as never), 'INVALID_INPUT'],
    [
      'ctx.scope() with a negative timeout',
      (ctx) => ctx.scope(() => 1, { timeout: -1 }),
      'INVALID_DURATION',
    ],
    [
      'ctx.scope() with a misspelled option',
      (ctx) => ctx.scope(() => 1, { timeOut: 1 } as never),
      'INVALID_OPTION',
    ],
    [
      'ctx.call() with an unknown cancellation mode',
      (ctx) => ctx.call('x', 1, { cancellation: 'never' as never }),
      'INVALID_OPTION',
    ],
    [
      'ctx.child() with an unknown cancellation mode',
      (ctx) => ctx.child('x', 1, { cancellation: 'never' as never }),
      'INVALID_OPTION',
    ],
    [
      'ctx.race() with a misspelled option',
      (ctx) => ctx.race([ctx.sleep(1)], { keep: true } as never),
      'INVALID_OPTION',
    ],
  ])('%s fails with its error code', async (_what, use, code) => {
    const run = orchestration('run', async (ctx) => {
      try {
        await use(ctx);
        return 'accepted';
      } catch (error) {
        return codeOf(error as Caught);
      }
    });
    const { client } = await open({ orchestrations: [run] });
    expect(await (await client.start(run)).result()).toBe(code);
  });

  it('an orchestration that catches every CanceledError and continues fails with CANCEL_IGNORED', async () => {
    const run = orchestration('run', async (ctx) => {
      for (;;) await ctx.sleep('1h').catch(() => undefined);
    });
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run);
    await whenRunning(client, handle.id);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow(/catches the CanceledError.*ctx\.shield/);
    expect((await handle.status()).failure).toMatchObject({ code: 'CANCEL_IGNORED' });
  });
});

describeEngine('handlers that ignore their signal', (open) => {
  it('a call in wait mode returns the result of a handler that ignores its cancel', async () => {
    const started = signalled<void>();
    const stubborn = activity('stubborn', async (ctx) => {
      started.resolve();
      await ctx.canceled();
      return 'finished anyway';
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(stubborn, undefined, { cancellation: 'wait' }),
    );
    const { client } = await open({
      orchestrations: [run],
      activities: [stubborn],
    });
    const handle = await client.start(run);
    await started.promise;
    await handle.cancel({ reason: 'stop' });
    expect(await handle.result()).toBe('finished anyway');
    expect(await handle.status()).toMatchObject({
      status: 'completed',
      cancel: { reason: 'stop' },
    });
    expect(await handle.status()).not.toHaveProperty('leaked');
  });

  it.each([
    ['returns', async (): Promise<string> => 'finished anyway'],
    [
      'throws its own error',
      (): Promise<string> => Promise.reject(new Error('could not roll back')),
    ],
    [
      'throws a value that is not an error',
      (): Promise<string> => Promise.reject(Object('nonsense') as Error),
    ],
  ] as const)(
    'the outcome of a canceled handler that %s is dropped in request mode',
    async (_how, end) => {
      const started = signalled<void>();
      let attempts = 0;
      const stubborn = activity('stubborn', async (ctx) => {
        attempts += 1;
        started.resolve();
        await ctx.canceled();
        return end();
      });
      const run = orchestration('run', async (ctx) =>
        ctx.call(stubborn, undefined, { retry: { maxAttempts: 5, initialDelay: 1 } }),
      );
      const { client } = await open({
        orchestrations: [run],
        activities: [stubborn],
      });
      const handle = await client.start(run);
      await started.promise;
      await handle.cancel({ reason: 'stop' });
      await expect(handle.result()).rejects.toMatchObject({ reason: 'stop' });
      expect(attempts).toBe(1);
      expect(await handle.status()).not.toHaveProperty('leaked');
      const kinds = (await client.exportHistory(handle.id)).events.map(({ kind }) => kind);
      expect(kinds.filter((kind) => /^activity(Completed|Failed)/.test(kind))).toEqual([]);
    },
  );

  it('an AbortError that a handler throws without a cancel fails its call', async () => {
    const run = orchestration('run', async (ctx) =>
      ctx.call(odd).catch((error: { cause?: Caught }) => error.cause?.code),
    );
    const odd = activity('odd', async () => {
      throw new DOMException('nobody asked', 'AbortError');
    });
    const { client } = await open({ orchestrations: [run], activities: [odd] });
    const handle = await client.start(run);
    await handle.result();
    expect(await handle.status()).toMatchObject({ status: 'completed' });
    const kinds = (await client.exportHistory(handle.id)).events.map(({ kind }) => kind);
    expect(kinds).toContain('activityFailed');
  });
});
