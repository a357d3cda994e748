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

/** An activity that is stopped by its signal, for modes without hints too. */
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
  'cancels that make no sense',
  (open) => {
    it.each([
      ['completed', async (): Promise<number> => 1],
      ['failed', (): Promise<number> => Promise.reject(new Error('no'))],
    ] as const)('an instance that is %s stays so', async (status, code) => {
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
    });

    it('an instance that is terminated stays so, and one that is canceling can still be terminated', async () => {
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
      ['a misspelt option', { because: 'x' } as CancelOptions, 'INVALID_OPTION'],
      ['options that are text', 'stop' as CancelOptions, 'INVALID_OPTION'],
      ['a wait that is no yes or no', { wait: 'yes' as never }, 'INVALID_INPUT'],
      ['a negative time to clean up', { cleanupTimeout: -1 }, 'INVALID_DURATION'],
      ['a time to clean up that never ends', { cleanupTimeout: Infinity }, 'INVALID_DURATION'],
      ['an actor that is no text', { actor: 5 as never }, 'INVALID_NAME'],
    ])('%s is refused, and nothing is asked of the instance', async (_what, options, code) => {
      const run = orchestration('run', async (ctx) => ctx.waitFor('never'));
      const { client } = await open({ orchestrations: [run] });
      const handle = await client.start(run);
      await whenRunning(client, handle.id);
      await expect(handle.cancel(options)).rejects.toMatchObject({ code });
      expect(await handle.status()).toMatchObject({ status: 'running' });
      expect(await handle.status()).not.toHaveProperty('cancel');
    });

    it('an id that cannot be one is refused', async () => {
      const { client } = await open();
      await expect(client.cancel('')).rejects.toMatchObject({ code: 'INVALID_ID' });
      await expect(client.terminate('a\nb')).rejects.toMatchObject({ code: 'INVALID_ID' });
    });

    it('a megabyte of reason is cut on its way to handlers and code, with a note', async () => {
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
        activityLease: 150,
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
      ['white space', ' \n\t ', 'canceled'],
      ['text with control characters', '\u0000a\r\n\u001b[31mb', 'a [31mb'],
      ['half a character', 'a\ud800', 'a\ufffd'],
      ['a function', () => 1, 'a value of type function'],
      [
        'something that throws when it is looked at',
        { toJSON: () => JSON.parse('{') },
        'a value of type object',
      ],
    ])('%s as a reason becomes text', async (_what, reason, text) => {
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

describeEngine('cancels in code that make no sense', (open) => {
  it('an operation, group, scope or shield that has settled is not touched by its cancel', async () => {
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

  it('a second cancel of an operation changes nothing: the first reason is kept, once', async () => {
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
      activityLease: 150,
    });
    const handle = await client.start(run);
    await started;
    await handle.raiseEvent('go', null);
    expect(await handle.result()).toBe('first');
    const { events } = await client.exportHistory(handle.id);
    expect(events.filter(({ kind }) => kind === 'operationWithdrawn')).toHaveLength(1);
  });

  it('a reason in code that is no text, or too much of it, becomes text like that of a client', async () => {
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

  it('a shield where nothing was canceled is no more than its code, and its timeout counts all the same', async () => {
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

  it('shields nest: a cancel enters none of them, and what is between them is shielded too', async () => {
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

  it('the deadline of a shield holds for the shields inside of it', async () => {
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
    ['a scope of nothing', (ctx) => ctx.scope(undefined as never), 'INVALID_INPUT'],
    ['a shield of a promise', (ctx) => ctx.shield(ctx.sleep(1) as never), 'INVALID_INPUT'],
    [
      'a scope with a negative timeout',
      (ctx) => ctx.scope(() => 1, { timeout: -1 }),
      'INVALID_DURATION',
    ],
    [
      'a scope with a misspelt option',
      (ctx) => ctx.scope(() => 1, { timeOut: 1 } as never),
      'INVALID_OPTION',
    ],
    [
      'an unknown kind of cancellation',
      (ctx) => ctx.call('x', 1, { cancellation: 'never' as never }),
      'INVALID_OPTION',
    ],
    [
      'an unknown kind of a child',
      (ctx) => ctx.child('x', 1, { cancellation: 'never' as never }),
      'INVALID_OPTION',
    ],
    [
      'a race with a misspelt option',
      (ctx) => ctx.race([ctx.sleep(1)], { keep: true } as never),
      'INVALID_OPTION',
    ],
  ])('%s is refused', async (_what, use, code) => {
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

  it('code that catches every cancellation and goes on for ever is failed, with advice', async () => {
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

describeEngine('handlers that make no sense of their signal', (open) => {
  it('one that swallows it and returns is heard by a caller that waits', async () => {
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
      activityLease: 150,
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
      'throws an error of its own',
      (): Promise<string> => Promise.reject(new Error('could not roll back')),
    ],
    ['throws what is no error', (): Promise<string> => Promise.reject(Object('nonsense') as Error)],
  ] as const)(
    'one that swallows it and %s is not heard by a caller that went on',
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
        activityLease: 150,
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

  it('one that throws the cancellation of something else is taken at its word: it failed', async () => {
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
