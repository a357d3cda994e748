import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { activity, orchestration, Perdure, task, type OpenOptions } from '../../src/index.ts';
import { event, newInstance, newTurn } from '../../src/testing/conformance/sample-data.ts';
import { testOptions } from '../../src/runtime/test-options.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const large = { text: 'x'.repeat(10_000) };
const largeText = JSON.stringify(large);
const make = activity('make', () => large);
const build = orchestration('build', (ctx) => ctx.call(make, undefined));
const buildNow = orchestration('buildNow', () => Promise.resolve(large));
const render = task('render', () => large);
const definitions = { orchestrations: [build, buildNow], activities: [make], tasks: [render] };

/** Opens a store, and a connection that reads its tables. */
async function openStore(options: OpenOptions = {}) {
  const { url } = await temporaryStore();
  const open = async (): Promise<Perdure> => {
    const perdure = await Perdure.open(url, options);
    onTestFinished(() => perdure.close());
    return perdure;
  };
  const reader = new pg.Client({ connectionString: url, options: '-c search_path=perdure' });
  await reader.connect();
  onTestFinished(() => reader.end());
  const ownOutput = async (id: string): Promise<unknown> => {
    const { rows } = await reader.query<{ output: string | null }>(
      'SELECT output FROM instances WHERE instance_id = $1',
      [id],
    );
    return rows[0]?.output;
  };
  return { open, ownOutput };
}

async function expectOutput(perdure: Perdure, id: string): Promise<void> {
  expect(await perdure.client.handle(id).result()).toEqual(large);
  const { items } = await perdure.client.list({}, { payloads: true });
  expect(items.map(({ output }) => output)).toEqual([large]);
}

describe('the large output of an orchestration is stored in its history alone', () => {
  it('when its last turn is committed with the outcome of an activity', async () => {
    const { open, ownOutput } = await openStore();
    const perdure = await open();
    await perdure.startWorker(definitions);
    const { id } = await perdure.client.start(build);
    await expectOutput(perdure, id);
    expect(await ownOutput(id)).toBeNull();
  });

  it('when a worker of another process completes it', async () => {
    const { open, ownOutput } = await openStore();
    const [client, worker] = [await open(), await open()];
    const { id } = await client.client.start(buildNow);
    await worker.startWorker(definitions);
    await expectOutput(client, id);
    expect(await ownOutput(id)).toBeNull();
  });

  it('when no fast path is used', async () => {
    const { open, ownOutput } = await openStore(testOptions({ fastPaths: false }));
    const perdure = await open();
    await perdure.startWorker(definitions);
    const { id } = await perdure.client.start(build);
    await expectOutput(perdure, id);
    expect(await ownOutput(id)).toBeNull();
  });
});

it('a task run, which has no history, stores its large output', async () => {
  const { open, ownOutput } = await openStore();
  const perdure = await open();
  await perdure.startWorker(definitions);
  const { id } = await perdure.client.runTask(render);
  await expectOutput(perdure, id);
  expect(await ownOutput(id)).toBe(largeText);
});

it('an output that differs from the last event is stored, and pages count both kinds by size', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  const outcome = { status: 'completed', payload: largeText } as const;
  const inHistory = [{ ...event('end'), kind: 'executionCompleted', payload: largeText }];
  await provider.createInstances([
    newInstance('a', { firstTurn: newTurn({ outcome, events: inHistory }) }),
    newInstance('b', { firstTurn: newTurn({ outcome, events: [event('other')] }) }),
  ]);
  const found = await provider.getInstances(['a', 'b']);
  expect(found.map((instance) => instance?.output)).toEqual([largeText, largeText]);
  const listed = async (maxBytes: number): Promise<readonly string[]> => {
    const page = await provider.listInstances({ filter: {}, limit: 10, maxBytes });
    return page.instances.map(({ instanceId }) => instanceId);
  };
  expect(await listed(2 * largeText.length + 100)).toEqual(['b', 'a']);
  expect(await listed(2 * largeText.length - 1)).toEqual(['b']);
});
