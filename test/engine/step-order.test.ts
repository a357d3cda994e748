import { expect, it } from 'vitest';
import type { HistoryEvent } from '../../src/model/event.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

type Calls = 'in sequence' | 'in parallel' | 'in parallel, the first without an outcome';

/** One build of the orchestration, which calls its steps in a given order. */
function build(calls: Calls, [first, second]: readonly [string, string]) {
  return orchestration('reordered', async (ctx) => {
    if (calls === 'in sequence') {
      await ctx.run(first, () => first);
      await ctx.run(second, () => second);
    } else if (calls === 'in parallel') {
      await ctx.all([ctx.run(first, () => first), ctx.run(second, () => second)]);
    } else {
      // The history has its failed attempt. The next one is an hour away.
      const retry = { maxAttempts: 2, initialDelay: '1h' } as const;
      const open = ctx.run(first, () => Promise.reject(new Error('Unavailable.')), { retry });
      open.catch(() => undefined);
      await ctx.run(second, () => second);
    }
    await ctx.waitFor('go');
    return `${first}, ${second}`;
  });
}

describeEngine('order of steps', (open) => {
  it.each<[Calls, readonly string[]]>([
    ['in sequence', ['stepCompleted', 'stepCompleted', 'eventAwaited']],
    ['in parallel', ['stepCompleted', 'stepCompleted', 'eventAwaited']],
    ['in parallel, the first without an outcome', ['stepRetried', 'stepCompleted', 'eventAwaited']],
  ])(
    'steps %s whose order changed block the instance, with the recorded and the issued step',
    async (calls, kinds) => {
      const { client, startWorker } = await open();
      const before = build(calls, ['charge', 'ship']);
      const old = await startWorker({ orchestrations: [before] });
      const handle = await client.start(before, undefined, { id: 'order-17' });
      const readHistory = async () => (await client.history('order-17')).items;
      const readKinds = async () => (await readHistory()).slice(1).map(({ event }) => event.kind);
      await expect.poll(async () => (await readKinds()).toSorted()).toEqual([...kinds].toSorted());
      const history = await readHistory();
      await old.stop();
      const wrong = await startWorker({ orchestrations: [build(calls, ['ship', 'charge'])] });
      await handle.raiseEvent('go', null);
      await expect.poll(async () => (await client.get('order-17'))?.blocked).toBeTruthy();
      // The first event of a step: which step that is depends on which of the two ended first.
      const first = history[1]?.event;
      const { name, operation } = first as Extract<
        HistoryEvent,
        { readonly kind: 'stepCompleted' | 'stepRetried' }
      >;
      const other = name === 'charge' ? 'ship' : 'charge';
      const difference = {
        code: 'NONDETERMINISM',
        eventId: 2,
        recorded: { name, operation, text: `step "${name}"` },
        issued: { name: other, operation, text: `step "${other}"` },
      };
      expect((await client.get('order-17'))?.blocked).toMatchObject(difference);
      const [blocked] = (await client.why('order-17')).waits;
      expect(blocked).toMatchObject({ kind: 'blocked', ...difference });
      // Nothing was recorded, so the build that wrote the history completes the instance.
      expect(await readHistory()).toEqual(history);
      await wrong.stop();
      await startWorker({ orchestrations: [before] });
      expect(await handle.result()).toBe('charge, ship');
      expect((await client.get('order-17'))?.blocked).toBeFalsy();
    },
  );
});
