import { expect, it } from 'vitest';
import { flow } from '../../src/flows.ts';
import type { Client, CommonStartOptions } from '../../src/index.ts';
import { CanceledError } from '../../src/model/failures/errors.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeSharedEngine } from './describe-engine.ts';

interface Seen {
  readonly headers: unknown;
  readonly tags: unknown;
  readonly priority: number | undefined;
  readonly at: number;
}

/** What the contexts of all handlers have. */
interface Attempt {
  readonly headers: unknown;
  readonly instanceId?: string;
  readonly runId?: string;
  canceled(): Promise<unknown>;
  throwIfCanceled(): void;
}

/** The priority that the first event of an instance has for its calls. */
async function priorityOf(client: Client, id: string): Promise<number | undefined> {
  const [first] = (await client.history(id, { limit: 1 })).items;
  if (first?.event.kind !== 'executionStarted') return undefined;
  const { priority, payload } = first.event;
  // That of a flow is part of its input.
  return priority ?? (JSON.parse(payload ?? 'null') as { priority?: number } | null)?.priority;
}

/** The work of every run: returns what it was started with, or waits for its cancel. */
async function probe(ctx: Attempt, hangs: boolean): Promise<Seen> {
  if (hangs) {
    await ctx.canceled();
    ctx.throwIfCanceled();
  }
  const { client } = ctx as unknown as { readonly client: Client };
  const id = ctx.instanceId ?? ctx.runId ?? '';
  const run = await client.get(id);
  return {
    headers: ctx.headers,
    tags: run?.tags,
    priority: run?.task?.priority ?? (await priorityOf(client, id)),
    at: Date.now(),
  };
}

const probeActivity = activity('probeActivity', (ctx, hangs: boolean) => probe(ctx, hangs));
const probeTask = task('probeTask', (ctx, hangs: boolean) => probe(ctx, hangs));
const probed = orchestration('probed', (ctx, hangs: boolean) => ctx.call(probeActivity, hangs));
/** Returns its version, also in the place of the headers. */
const probedNext = orchestration('probed', (ctx) => Promise.resolve({ headers: ctx.version }), {
  version: '2',
});
const probeFlow = flow('probeFlow')
  .input<boolean>()
  .step('seen', {}, (ctx, { input }) => probe(ctx, input))
  .output('seen');

/** Returns the trigger of a cancel, and rethrows every other error. */
function triggerOf(error: unknown): { readonly trigger: string } {
  if (!(error instanceof CanceledError)) throw error;
  return { trigger: error.trigger };
}

/** The code of an error and of its cause. */
function codesOf(error: unknown): string {
  const { code, cause } = error as { code?: string; cause?: { code?: string } };
  return `${code} ${cause?.code}`;
}

interface Call {
  readonly way: 'child' | 'childFlow' | 'detached' | 'detachedFlow';
  readonly hangs: boolean;
  readonly options: CommonStartOptions;
}

const starter = orchestration('starter', async (ctx, { way, hangs, options }: Call) => {
  switch (way) {
    case 'child':
      return ctx.child(probed, hangs, options).catch(triggerOf);
    case 'childFlow':
      return ctx.child(probeFlow, hangs, options).catch(triggerOf);
    case 'detached':
      await ctx.startDetached(probed, hangs, { ...options, id: `${ctx.instanceId}-d` });
      return undefined;
    case 'detachedFlow':
      await ctx.startDetached(probeFlow, hangs, { ...options, id: `${ctx.instanceId}-d` });
      return undefined;
  }
});

type Start = (client: Client, hangs: boolean, options: CommonStartOptions) => Promise<unknown>;

async function runChild(client: Client, call: Call): Promise<unknown> {
  return (await client.start(starter, call)).result();
}

async function runDetached(client: Client, call: Call): Promise<unknown> {
  const { id } = await client.start(starter, call);
  await client.handle(starter, id).result();
  return client.handle(probed, `${id}-d`).result();
}

async function runSchedule(client: Client, put: (name: string) => Promise<unknown>) {
  const name = `s-${Math.random()}`;
  await put(name);
  const { id } = await client.schedules.trigger(name);
  return client.handle(probed, id).result();
}

/** Every way to start a run that takes the common options. */
const ways: Readonly<Record<string, Start>> = {
  start: async (client, hangs, options) => (await client.start(probed, hangs, options)).result(),
  runFlow: async (client, hangs, options) =>
    (await client.runFlow(probeFlow, hangs, options)).result(),
  runTask: async (client, hangs, options) =>
    (await client.runTask(probeTask, hangs, options)).result(),
  runTasks: async (client, hangs, options) => {
    const [run] = await client.runTasks([{ task: probeTask, input: hangs, options }]);
    return run.result();
  },
  'submit of an orchestration': (client, hangs, options) =>
    client.submit(probed, hangs, options).result(),
  'submit of a task': (client, hangs, options) => client.submit(probeTask, hangs, options).result(),
  'submit of a flow': (client, hangs, options) => client.submit(probeFlow, hangs, options).result(),
  'ctx.child': (client, hangs, options) => runChild(client, { way: 'child', hangs, options }),
  'ctx.child of a flow': (client, hangs, options) =>
    runChild(client, { way: 'childFlow', hangs, options }),
  'ctx.startDetached': (client, hangs, options) =>
    runDetached(client, { way: 'detached', hangs, options }),
  'ctx.startDetached of a flow': (client, hangs, options) =>
    runDetached(client, { way: 'detachedFlow', hangs, options }),
};

/** Schedules take all but `delay` and `runAt`. */
const schedules: Readonly<Record<string, Start>> = {
  'a schedule of an orchestration': (client, hangs, options) =>
    runSchedule(client, (name) =>
      client.schedules.put(name, { orchestration: probed, input: hangs, every: '1h', options }),
    ),
  'a schedule of a task': (client, hangs, options) =>
    runSchedule(client, (name) =>
      client.schedules.put(name, { task: probeTask, input: hangs, every: '1h', options }),
    ),
  'a schedule of a flow': (client, hangs, options) =>
    runSchedule(client, (name) =>
      client.schedules.put(name, { flow: probeFlow, input: hangs, every: '1h', options }),
    ),
};

const definitions = {
  orchestrations: [probed, probedNext, starter],
  activities: [probeActivity],
  tasks: [probeTask],
  flows: [probeFlow],
};

describeSharedEngine(
  'options of every start',
  { ...definitions, pollInterval: 100 },
  (engine) => {
    it.concurrent.each(Object.entries({ ...ways, ...schedules }))(
      '%s takes headers, tags, a priority and a timeout',
      async (_way, start) => {
        const { client } = engine();
        const options = { headers: { tenant: '7' }, tags: { of: 'x' }, priority: 70 };
        expect(await start(client, false, { ...options, timeout: '1m' })).toMatchObject({
          headers: { tenant: '7' },
          tags: { of: 'x' },
          priority: 70,
        });
        const ended = await start(client, true, { timeout: 100 }).catch((error: unknown) => error);
        expect(ended).toMatchObject({ trigger: 'timeout' });
      },
    );

    it.concurrent.each(Object.entries(ways))(
      '%s takes a delay and a runAt',
      async (_way, start) => {
        const { client } = engine();
        for (const isDelay of [true, false]) {
          const due = Date.now() + 150;
          const options = isDelay ? { delay: 150 } : { runAt: due };
          const { at } = (await start(client, false, options)) as Seen;
          // The clock of the store rounds to milliseconds.
          expect(at).toBeGreaterThanOrEqual(due - 10);
        }
      },
    );

    it.concurrent.each(Object.entries(ways))(
      '%s takes onConflict if it has an id',
      async (way, start) => {
        const { client } = engine();
        const isDetached = way.startsWith('ctx.startDetached');
        const given = (onConflict: string) =>
          ({
            onConflict,
            ...(!isDetached && { id: `${way} ${onConflict}` }),
          }) as CommonStartOptions;
        for (const onConflict of ['reject', 'terminateExisting']) {
          expect(await start(client, false, given(onConflict))).toMatchObject({ headers: {} });
        }
        const unknown = Promise.resolve().then(() => start(client, false, given('replace')));
        const error: unknown = await unknown.catch((thrown: unknown) => thrown);
        expect(codesOf(error)).toMatch(/INVALID_OPTION/);
      },
    );

    it.concurrent.each([
      'start',
      'submit of an orchestration',
      'ctx.child',
      'ctx.startDetached',
      'a schedule of an orchestration',
    ])('%s takes a version', async (way) => {
      const start = { ...ways, ...schedules }[way] as Start;
      const given = (version: string) => ({ version }) as CommonStartOptions;
      expect(await start(engine().client, false, given('1'))).toMatchObject({ headers: {} });
      expect(await start(engine().client, false, given('2'))).toMatchObject({ headers: '2' });
    });

    it.concurrent.each(Object.entries({ ...ways, ...schedules }))(
      '%s takes an event, or rejects it with INVALID_OPTION',
      async (way, start) => {
        const { client } = engine();
        const options = { event: { token: 'unused' } } as CommonStartOptions;
        const outcome = await Promise.resolve()
          .then(() => start(client, false, options))
          .catch((thrown: unknown) => thrown);
        const takesNone = /ask|schedule/.test(way);
        if (takesNone) expect(codesOf(outcome)).toMatch(/INVALID_OPTION/);
        else expect(outcome).toMatchObject({ headers: {} });
      },
    );

    it.concurrent.each(Object.entries({ ...ways, ...schedules }))(
      '%s takes a dedupeKey, or rejects it with INVALID_OPTION',
      async (way, start) => {
        const { client } = engine();
        const options = { dedupeKey: `key of ${way}` } as CommonStartOptions;
        const outcome = await Promise.resolve()
          .then(() => start(client, false, options))
          .catch((thrown: unknown) => thrown);
        const takesOne = ['start', 'runFlow', 'runTask', 'runTasks', 'submit of a task'];
        if ([...takesOne, 'a schedule of a task'].includes(way)) {
          expect(outcome).toMatchObject({ headers: {} });
        } else expect(codesOf(outcome)).toMatch(/INVALID_OPTION/);
      },
    );

    it.concurrent.each(Object.entries({ ...ways, ...schedules }))(
      '%s rejects invalid options',
      async (_way, start) => {
        const { client } = engine();
        const bad: readonly (readonly [CommonStartOptions, RegExp])[] = [
          [{ timeout: 0 }, /INVALID_OPTION/],
          [{ timeout: 'soon' }, /INVALID_DURATION/],
          [{ priority: 101 }, /INVALID_(OPTION|INPUT)/],
          [{ headers: { a: 1 } as unknown as Record<string, string> }, /INVALID_(OPTION|INPUT)/],
          [{ tags: { a: 1 } as unknown as Record<string, string> }, /INVALID_(OPTION|INPUT)/],
          [{ idd: 'x' } as CommonStartOptions, /INVALID_(OPTION|INPUT)/],
        ];
        for (const [options, code] of bad) {
          const run = Promise.resolve().then(() => start(client, false, options));
          const error: unknown = await run.catch((thrown: unknown) => thrown);
          expect(`${codesOf(error)} for ${JSON.stringify(options)}`).toMatch(code);
        }
      },
    );
  },
  ['all fast paths', 'PostgreSQL', 'over HTTP'],
);
