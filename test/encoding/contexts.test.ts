import { expect, it } from 'vitest';
import {
  activity,
  event,
  orchestration,
  task,
  update,
  type BatchRun,
  type EncodeContext,
  type ExternalPayloadStore,
} from '../../src/index.ts';
import type { PayloadCodec } from '../../src/codecs.ts';
import { createEncodedStore } from './encoded-store.ts';
import { xorCodec } from './xor-codec.ts';

/** The payloads of the program are marked, for example `<input of a task>`. */
const marked = /<[^<>]+>/g;
const found = new Map<string, Set<string>>();
/** The owners of payloads without a mark, such as `null` and the words of Perdure. */
const others = new Set<string>();

/** Records the owner of each marked payload. */
const recording: PayloadCodec = {
  ...xorCodec(),
  encode: (bytes, context) => {
    const text = new TextDecoder().decode(bytes.subarray(4));
    const marks = text.match(marked);
    // `Perdure.open` encodes a sample.
    if (marks === null && text !== '"perdure"') others.add(ownerOf(context));
    for (const mark of marks ?? []) {
      const owners = found.get(mark) ?? new Set();
      found.set(mark, owners.add(ownerOf(context)));
    }
    return xorCodec().encode(bytes, context);
  },
};

function ownerOf(context: EncodeContext): string {
  expect(Object.keys(context).length).toBeLessThanOrEqual(1);
  const { instanceId, schedule, sessionId } = context;
  if (schedule !== undefined) return `schedule ${schedule}`;
  return instanceId ?? (sessionId === undefined ? 'none' : 'session');
}

const go = event<string>('go');
const opening = event<string>('opening');
const change = update<string, string>('change');
const refuse = update<string, string>('refuse');

const plain = activity(
  'plain',
  async (ctx) => {
    ctx.heartbeat('<heartbeat>');
    await ctx.emit('<chunk of an activity>');
    if (ctx.attempt === 1) throw new Error('<failure of an attempt>');
    return '<result of an activity>';
  },
  { retry: { maxAttempts: 2, initialDelay: 10 } },
);
const failing = activity('failing', async () => {
  throw new Error('<failure of an activity>');
});
const commits = activity('commits', (ctx) =>
  ctx.transaction(async () => '<transaction of an activity>'),
);
const child = orchestration('child', async (ctx, _input: string) => {
  await ctx.call(plainInChild, '<input of an activity of a child>');
  return '<output of a child>';
});
const plainInChild = activity('plainInChild', async (_ctx, _input: string) => null);
const waits = orchestration('waits', async (ctx, _input: string) => {
  await ctx.waitFor(opening);
  return '<output after an event>';
});
const waitsTwice = orchestration('waitsTwice', async (ctx, _input: string) => {
  await ctx.waitFor(opening);
  await ctx.waitFor(opening);
});
const parent = orchestration('parent', async (ctx, input: string) => {
  if (input === '<input>') {
    ctx.state.set('carried', '<carried state>');
    return ctx.continueAsNew('<input of the next execution>');
  }
  ctx.setCustomStatus('<custom status>');
  ctx.emit('<chunk of an orchestration>');
  ctx.onUpdate(change, {
    handle: (text) => {
      ctx.state.set('changed', '<state>');
      return `<reply>${text}`;
    },
  });
  ctx.onUpdate(refuse, {
    handle: () => {
      throw new Error('<failure of an update>');
    },
  });
  await ctx.call(plain);
  await ctx.call(failing).catch(() => null);
  await ctx.call(commits);
  await ctx.run('step', async (step) => {
    await step.emit('<chunk of a step>');
    return '<result of a step>';
  });
  const failed = ctx.run('failing', () => {
    throw new Error('<failure of a step>');
  });
  await failed.catch(() => null);
  await ctx.transaction('write', async () => '<transaction of a step>');
  await ctx.child(child, '<input of a child>', { id: 'acme/child' });
  await ctx.startDetached(child, '<input of a detached instance>', { id: 'acme/detached' });
  const { token, promise } = ctx.awakeable<string>();
  ctx.state.set('token', `<token>${token}`);
  await promise;
  await ctx.waitFor(go);
  return '<output>';
});
const single = task('single', async (ctx, _input: string) => {
  await ctx.emit('<chunk of a task>');
  return '<result of a task>';
});
const broken = task('broken', async () => {
  throw new Error('<failure of a task>');
});
const committing = task('committing', (ctx) =>
  ctx.transaction(async () => '<transaction of a task>'),
);
const scheduled = task('scheduled', async (_ctx, _input: string) => null);
const together = task(
  'together',
  async (ctx, _runs: readonly BatchRun<undefined, string>[]) => {
    await ctx.transaction((_tx, runs) => runs.map(({ id }) => `<transaction of ${id}>`));
  },
  { batch: { max: 2, wait: 100 } },
);

/** The owners of all payloads. */
const owners: Readonly<Record<string, readonly string[]>> = {
  '<input>': ['acme/parent'],
  '<input of the next execution>': ['acme/parent'],
  '<carried state>': ['acme/parent'],
  '<custom status>': ['acme/parent'],
  '<state>': ['acme/parent'],
  '<token>': ['acme/parent'],
  '<event>': ['acme/parent'],
  '<update>': ['acme/parent'],
  '<reply>': ['acme/parent'],
  '<refused update>': ['acme/parent'],
  '<failure of an update>': ['acme/parent'],
  '<chunk of an orchestration>': ['acme/parent'],
  '<heartbeat>': ['acme/parent'],
  '<chunk of an activity>': ['acme/parent'],
  '<failure of an attempt>': ['acme/parent'],
  '<result of an activity>': ['acme/parent'],
  '<failure of an activity>': ['acme/parent'],
  '<transaction of an activity>': ['acme/parent'],
  '<chunk of a step>': ['acme/parent'],
  '<result of a step>': ['acme/parent'],
  '<failure of a step>': ['acme/parent'],
  '<transaction of a step>': ['acme/parent'],
  '<output>': ['acme/parent'],
  // The start of a child belongs to the child, its outcome to the child and the parent.
  '<input of a child>': ['acme/child', 'acme/parent'],
  '<input of a detached instance>': ['acme/detached', 'acme/parent'],
  '<input of an activity of a child>': ['acme/child', 'acme/detached'],
  '<output of a child>': ['acme/child', 'acme/detached', 'acme/parent'],
  '<input of a task>': ['acme/task'],
  '<chunk of a task>': ['acme/debounced-task', 'acme/job', 'acme/task'],
  '<result of a task>': ['acme/debounced-task', 'acme/job', 'acme/task'],
  '<failure of a task>': ['acme/broken'],
  '<transaction of a task>': ['acme/committing'],
  '<transaction of acme/batch-1>': ['acme/batch-1'],
  '<transaction of acme/batch-2>': ['acme/batch-2'],
  '<input of a job>': ['acme/job'],
  // The store can pass these payloads to another instance. The key is that of the start.
  '<debounced input of a task>': ['acme/debounced-task'],
  '<debounced input>': ['acme/debounced'],
  '<event of a debounced start>': ['acme/debounced'],
  '<input with a dedupe key>': ['acme/dedupe-1', 'acme/dedupe-2'],
  '<start event with a dedupe key>': ['acme/dedupe-1', 'acme/dedupe-2'],
  '<output after an event>': ['acme/debounced'],
  // Exceptions: no instance is known when they are written.
  '<answer of an awakeable>': ['acme/parent', 'none'],
  '<input of a schedule>': ['acme/nightly/run', 'schedule acme/nightly'],
  '<variable of a session>': ['session'],
};

it('a codec gets the instance of every payload, with the documented exceptions', async () => {
  const store = await createEncodedStore('SQLite');
  const perdure = await store.open({ codec: recording });
  const { client } = perdure;
  await perdure.startWorker({
    orchestrations: [parent, child, waits, waitsTwice],
    activities: [plain, failing, commits, plainInChild],
    tasks: [single, broken, committing, scheduled, together],
  });
  const handle = await client.start(parent, '<input>', { id: 'acme/parent' });
  const { value } = await handle.waitForState('token');
  await client.update('acme/parent', change, '<update>');
  await client.update('acme/parent', refuse, '<refused update>').catch(() => null);
  await client.resolveAwakeable(String(value).slice('<token>'.length), '<answer of an awakeable>');
  await handle.raiseEvent(go, '<event>');
  await handle.result();
  await client.handle('acme/detached').result();

  await (await client.runTask(single, '<input of a task>', { id: 'acme/task' })).result();
  await (await client.runTask(committing, undefined, { id: 'acme/committing' })).result();
  const run = await client.runTask(broken, undefined, { id: 'acme/broken' });
  await run.result().catch(() => null);
  const batch = await client.runTasks(
    [1, 2].map((n) => ({
      task: together,
      input: undefined,
      options: { id: `acme/batch-${n}` },
    })),
  );
  await Promise.all(batch.map((each) => each.result()));

  const debounce = { key: 'k', wait: 10 };
  const debouncedTask = await client.runTask(single, '<debounced input of a task>', {
    id: 'acme/debounced-task',
    debounce,
  });
  await debouncedTask.result();
  const debounced = await client.start(waits, '<debounced input>', {
    id: 'acme/debounced',
    debounce,
  });
  await debounced.raiseEvent(opening, '<event of a debounced start>');
  await debounced.result();

  for (const id of ['acme/dedupe-1', 'acme/dedupe-2']) {
    const payload = '<start event with a dedupe key>';
    await client.start(waitsTwice, '<input with a dedupe key>', {
      id,
      dedupeKey: 'd',
      event: { token: opening, payload },
    });
  }
  await client.handle('acme/dedupe-1').result();

  await client.schedules.put('acme/nightly', {
    every: '1h',
    task: scheduled,
    input: '<input of a schedule>',
  });
  const { id: scheduledId } = await client.schedules.trigger('acme/nightly');
  await client.handle(scheduledId).result();

  const session = await client.openSession({ variables: { v: '<variable of a session>' } });
  await session.submit(single, '<input of a job>', { id: 'acme/job' }).result();
  await session.close();
  await perdure.close();

  const toLabel = (owner: string): string => (owner === scheduledId ? 'acme/nightly/run' : owner);
  const labeled = [...found].map(([mark, of]) => [mark, [...of].map(toLabel).toSorted()]);
  expect(Object.fromEntries(labeled)).toEqual(owners);
  expect([...others].filter((owner) => !owner.startsWith('acme/'))).toEqual([]);
}, 30_000);

it('a large payload that the store can pass to another instance is not stored externally', async () => {
  const stored = new Map<string, Uint8Array>();
  const external: ExternalPayloadStore = {
    put: async (key, bytes) => void stored.set(key, bytes),
    get: async (key) => stored.get(key),
    delete: async (keys) => keys.forEach((key) => stored.delete(key)),
    list: async () => [],
  };
  const store = await createEncodedStore('SQLite');
  const perdure = await store.open({
    codec: xorCodec(),
    externalPayloads: { store: external, aboveBytes: 1_024 },
  });
  const { client } = perdure;
  const large = 'x'.repeat(2_000);
  const debounce = { key: 'k', wait: '1h' } as const;
  await client.runTask('any', large, { id: 'task', debounce });
  await client.start('any', large, { id: 'start', debounce });
  const event = { token: opening, payload: large };
  await client.start('any', 'small', { id: 'event', dedupeKey: 'd', event });
  expect(stored.size).toBe(0);
  await client.start('any', large, { id: 'plain' });
  expect(stored.size).toBe(1);
});
