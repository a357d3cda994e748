import { describe, expect, it, onTestFinished } from 'vitest';
import { LocalClient } from '../../src/client/local-client.ts';
import type { Why } from '../../src/client/explaining/why.ts';
import type { HistoryEvent } from '../../src/model/event.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { StoreUnderTest } from '../../src/testing/conformance/store-under-test.ts';
import { startTask } from '../../src/testing/conformance/task-helpers.ts';
import { engineStores } from '../engine/engine-store.ts';
import { awaited, begin, liveWorker } from './why-arrangements.ts';
import { instanceStates } from './why-instance-states.ts';
import { taskStates } from './why-task-states.ts';
import { workerStates } from './why-worker-states.ts';

const states = [...instanceStates, ...taskStates, ...workerStates];

describe.each(['SQLite', 'PostgreSQL'] as const)('why() on %s', (kind) => {
  const create = engineStores(kind);

  async function open(): Promise<{ store: StoreUnderTest; client: LocalClient }> {
    const clock = new FakeClock();
    const files = await create();
    const provider = await files.open({ clock });
    const client = new LocalClient({ provider, clock });
    onTestFinished(async () => {
      await client.close();
      await provider.close();
      await files.remove();
    });
    const store = new StoreUnderTest({ provider, clock, corrupt: undefined, reopen: undefined });
    return { store, client };
  }

  it.each(states)(
    'explains an instance that is: $state',
    async ({ arrange, waits, text, short, workers = [liveWorker] }) => {
      const { store, client } = await open();
      await store.provider.registerWorkers(workers);
      await arrange(store);
      const why = await client.why('a');
      expect(why.text).toBe(text);
      expect(why.waits).toHaveLength(waits.length);
      expect(why.waits).toMatchObject(waits);
      expect(why.status).toBe((await client.get('a'))?.status);
      expect(why.short).toBe(short);
      // A list reads less than why(), and finds the same sentence.
      const [instance] = (await client.list({ idPrefix: 'a' })).items.filter(
        ({ id }) => id === 'a',
      );
      const [explained, ...others] = await client.explain(['missing', 'a']);
      expect(others).toEqual([]);
      expect(explained).toMatchObject({ id: 'a', instance, text: short });
      const works = why.waits.filter((wait) => 'attempt' in wait);
      expect(explained?.retrying).toBe(works.some(({ attempt }) => attempt > 1) || undefined);
      // The worker of a blocked instance reported the block, and runs nothing of it.
      const running = why.waits.flatMap((wait) =>
        wait.kind === 'turn' || 'attempt' in wait ? (wait.worker ?? []) : [],
      );
      expect(explained?.worker).toBe(running[0]);
    },
  );

  it('rejects an unknown id with INSTANCE_NOT_FOUND and a bad one with INVALID_ID', async () => {
    const { client } = await open();
    await expect(client.why('nobody')).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
    await expect(client.why('')).rejects.toMatchObject({ code: 'INVALID_ID' });
  });

  it('reads only the end of a long history, and marks the explanation as incomplete', async () => {
    const { store, client } = await open();
    const events = Array.from({ length: 5_100 }, (_, index) => awaited(index + 1, `e${index}`));
    await begin(store, events);
    const why: Why = await client.why('a');
    expect(why.incomplete).toBe(true);
    expect(why.waits).toHaveLength(100);
    expect(why.more).toBe(4_900);
    expect(why.text).toMatch(/^Waiting for 5000 operations: event `e\d+`; .*; and 4997 more\. /);
    expect(why.short).toBe('Waits for event `e100`; 4999 more');
    const [explained] = await client.explain(['a']);
    expect(explained?.text).toBe('Waits for event `e5036`; 63 more');
    expect(why.text).toMatch(
      / Its history is too long or damaged, so some waits may be missing\.$/,
    );
  });

  it('explain() finds the open wait of a loop whose beginning is not read', async () => {
    const { store, client } = await open();
    const loop = Array.from({ length: 200 }, (_, index): HistoryEvent[] => [
      awaited(index + 1, 'next'),
      { kind: 'eventReceived', at: 1, name: 'next', payload: null },
    ]).flat();
    await begin(store, [...loop, awaited(201, 'next')]);
    expect(await client.explain(['a'])).toMatchObject([{ text: 'Waits for event `next`' }]);
  });

  it('explain() rejects bad ids, returns the order asked and each id once', async () => {
    const { store, client } = await open();
    await store.create('a');
    await store.create('b');
    const found = await client.explain(['b', 'nobody', 'a', 'b']);
    expect(found.map(({ id }) => id)).toEqual(['b', 'a']);
    const tooMany = Array.from({ length: 201 }, (_, index) => `i${index}`);
    for (const ids of [[], [''], 'a', tooMany]) {
      await expect(client.explain(ids as string[])).rejects.toMatchObject({
        code: expect.stringMatching(/^INVALID_/) as string,
      });
    }
  });

  it('explain() shows names with backticks, and cuts long failures', async () => {
    const { store, client } = await open();
    await begin(store, [awaited(1, 'a`b')]);
    expect(await client.explain(['a'])).toMatchObject([{ text: "Waits for event `a'b`" }]);
    const { lockToken } = await startTask(store, 't');
    const long = JSON.stringify({ name: 'E', message: 'x'.repeat(20_000) });
    await store.ackWork(lockToken, { kind: 'failed', failure: long });
    const [explained] = await client.explain(['t']);
    expect(explained?.text).toBe('Failed: The failure is too large to show');
  });
});
