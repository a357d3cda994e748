/** Starts whose ids collide on purpose: with `event`, with each `onConflict`, by clients and in turns. */
import { setTimeout as delay } from 'node:timers/promises';
import {
  activity,
  event,
  isPerdureError,
  orchestration,
  task,
  type Client,
} from '../../../src/index.ts';
import { ProviderError } from '../../../src/model/failures/errors.ts';

const startKinds = [
  'raise',
  'replace',
  'use',
  'reject',
  'turns',
  'replaceTask',
  'useTask',
] as const;

/** One start. Its key is its input, and what makes a repeat of it recognizable. */
export interface CollidingStart {
  readonly kind: (typeof startKinds)[number];
  readonly id: string;
  readonly key: string;
  /** When it was first made. Starts of the same moment have the same ids. */
  readonly moment: number;
}

/** `done`: the store has acknowledged the start. `conflict`: the id belongs to another input. */
export type StartOutcome = 'done' | 'conflict';

export const closed = event('closed');
const added = event<string>('added');
const stopped = event('stopped');

const effect = activity('effect', async (_ctx, input: string) => {
  await delay(input.length % 7);
  return input;
});

/** Collects the payloads of events, over many executions, until it is closed. */
const inbox = orchestration('inbox', async (ctx, before: readonly string[]) => {
  const seen = [...before];
  for (let count = 0; count < 20; count += 1) {
    const next = await ctx.select({ added: ctx.waitFor(added), closed: ctx.waitFor(closed) });
    if (next.key === 'closed') return seen;
    seen.push(next.value);
  }
  return ctx.continueAsNew(seen);
});

/** A child. One whose input ends with `waits` waits for an event. */
const leaf = orchestration('leaf', async (ctx, input: string) => {
  if (input.endsWith('waits')) await ctx.waitFor(stopped);
  if (input.endsWith('adds')) return ctx.waitFor(added);
  return ctx.call(effect, input);
});

/** Has a child and an activity, and waits to be replaced. One whose input ends with `ends` completes. */
const slot = orchestration('slot', async (ctx, input: string) => {
  const child = ctx.child(leaf, `${input} waits`);
  child.catch(() => undefined);
  await ctx.call(effect, input);
  if (!input.endsWith('ends')) await ctx.waitFor(stopped);
  return input;
});

const single = orchestration('single', (ctx, input: string) => ctx.call(effect, input));

const slotTask = task('slotTask', async (_ctx, input: string) => {
  await delay(input.length % 7);
  return input;
});

/** Starts others in its turns, and replaces its own child. */
const starting = orchestration(
  'starting',
  async (ctx, { key, moment }: Pick<CollidingStart, 'key' | 'moment'>) => {
    const payload = `${key} in a turn`;
    const place = moment % 3;
    await ctx.startDetached(inbox, [], {
      id: `inbox-${place}`,
      event: { token: added, payload },
    });
    const options = { id: `slot-${place}`, onConflict: 'terminateExisting' } as const;
    // Not awaited: it is part of the same turn as the next start.
    const replaced = ctx.startDetached(slot, payload, options);
    await ctx.startDetached(single, payload, { id: `use-${moment}`, onConflict: 'useExisting' });
    await replaced;
    const id = `leaf-${key}`;
    const first = ctx.child(leaf, `${key} waits`, { id });
    first.catch(() => undefined);
    await ctx.call(effect, key);
    const second = ctx.child(leaf, `${key} adds`, { id, onConflict: 'terminateExisting' });
    const third = ctx.child(leaf, `${key} adds`, {
      id,
      onConflict: 'useExisting',
    });
    await ctx.child(leaf, 'ignored', { id, event: { token: added, payload } });
    return ctx.all([second, third]);
  },
);

export const definitions = {
  orchestrations: [inbox, leaf, slot, single, starting],
  activities: [effect],
  tasks: [slotTask],
};

/** What `starting` returns. */
export function startingResult(key: string): readonly string[] {
  return [`${key} in a turn`, `${key} in a turn`];
}

/** Returns the start with this number of a process. All processes draw from the same ids. */
export function toStart(process: string, n: number): CollidingStart {
  const kind = startKinds[n % startKinds.length] ?? 'raise';
  const key = `${process}-${n}`;
  const place = Math.floor(n / startKinds.length) % 3;
  const moment = Math.floor(Date.now() / 150);
  const ids: Record<CollidingStart['kind'], string> = {
    raise: `inbox-${place}`,
    replace: `slot-${place}`,
    use: `use-${moment}`,
    reject: `reject-${moment}`,
    turns: `starting-${key}`,
    replaceTask: `task-${place}`,
    useTask: `useTask-${moment}`,
  };
  return { kind, id: ids[kind], key, moment };
}

/** Calls the store until it responds. A repeated call has the same keys, unless `withKeys` is false. */
export async function performStart(
  client: Client,
  start: CollidingStart,
  { withKeys = true } = {},
): Promise<StartOutcome> {
  for (;;) {
    try {
      await callStart(client, start, withKeys);
      return 'done';
    } catch (error) {
      if (isPerdureError(error, 'INSTANCE_ALREADY_EXISTS')) return 'conflict';
      if (!(error instanceof ProviderError && error.retryable)) throw error;
      await delay(20);
    }
  }
}

async function callStart(
  client: Client,
  { kind, id, key, moment }: CollidingStart,
  withKeys: boolean,
): Promise<unknown> {
  const replaceKey = withKeys ? key : undefined;
  const input = key.endsWith('0') ? `${key} ends` : key;
  switch (kind) {
    case 'raise': {
      const raised = { token: added, payload: key, ...(withKeys && { key }) };
      return client.start(inbox, [], { id, event: raised });
    }
    case 'replace':
      return client.start(slot, input, { id, onConflict: 'terminateExisting', replaceKey });
    case 'use':
      return client.start(single, key, { id, onConflict: 'useExisting' });
    case 'reject':
      return client.start(single, key, { id, onConflict: 'reject' });
    case 'turns':
      return client.start(starting, { key, moment }, { id });
    case 'replaceTask':
      return client.runTask(slotTask, key, { id, onConflict: 'terminateExisting', replaceKey });
    case 'useTask':
      return client.runTask(slotTask, key, { id, onConflict: 'useExisting' });
  }
}

/** Replaces the instance of a slot by one that completes. Returns its result. */
export async function replaceFinally(client: Client, id: string): Promise<unknown> {
  const options = { id, onConflict: 'terminateExisting' } as const;
  const last = id.startsWith('task')
    ? await client.runTask(slotTask, 'ends', options)
    : await client.start(slot, 'ends', options);
  return last.result();
}
