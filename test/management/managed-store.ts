import { setTimeout as delay } from 'node:timers/promises';
import { describe, onTestFinished } from 'vitest';
import {
  event,
  orchestration,
  Perdure,
  type Client,
  type InstanceStatus,
  type OpenOptions,
  type Provider,
  type StartWorkerOptions,
} from 'perdure';
import { FakeClock } from 'perdure/testing';
import { engineStores, type EngineStore, type StoreKind } from '../engine/engine-store.ts';
import { watchDriver } from '../postgres/helpers/driver-activity.ts';

/** Lets an instance that waits go on. */
const go = event<string>('go');

/** Ends at once. */
export const quick = orchestration('quick', async (_ctx, input: string) => input);

/** Fails at once. */
export const fails = orchestration('fails', async (): Promise<void> => {
  throw new Error('on purpose');
});

/** Ends when it is told to. */
export const waits = orchestration('waits', async (ctx) => ctx.waitFor(go));

/** Continues as new until its input is 0, then ends when it is told to. */
export const eternal = orchestration('eternal', async (ctx, rounds: number): Promise<unknown> => {
  if (rounds > 0) return ctx.continueAsNew(rounds - 1);
  return ctx.waitFor(go);
});

/** Has a child, which has one, and so on; the last of them ends when it is told to, or at once. */
export const chain = orchestration(
  'chain',
  async (ctx, input: { readonly below: number; readonly wait: boolean }): Promise<string> => {
    const { below, wait } = input;
    if (below === 0) return wait ? ctx.waitFor(go) : 'bottom';
    return ctx.child(chain, { below: below - 1, wait }, { id: `${ctx.instanceId}-c` });
  },
);

/** Has many children at once. */
export const wide = orchestration('wide', async (ctx, width: number) => {
  const ids = Array.from({ length: width }, (_, index) => `${ctx.instanceId}-${index}`);
  await ctx.all(ids.map((id) => ctx.child(quick, 'leaf', { id })));
});

/** Has one more child whenever it is told to. */
export const grows = orchestration('grows', async (ctx) => {
  for (let count = 0; ; count += 1) {
    await ctx.waitFor('more');
    ctx.child(waits, undefined, { id: `${ctx.instanceId}-${count}` }).catch(() => undefined);
  }
});

/** Ends and leaves a child behind that goes on. */
export const leaves = orchestration('leaves', async (ctx) => {
  void ctx.child(waits, undefined, { id: `${ctx.instanceId}-child`, cancellation: 'abandon' });
  await ctx.sleep(0);
});

/** Cleans up, when it is canceled, until it is told to be done. */
export const tidies = orchestration('tidies', async (ctx) => {
  try {
    await ctx.waitFor(go);
  } finally {
    await ctx.shield(() => ctx.waitFor('tidy'));
  }
});

export const orchestrations = [quick, fails, waits, eternal, chain, wide, grows, leaves, tidies];

/** The stores of a suite. */
interface ManagedStores {
  /** A store whose clock stands still until it is told to move, with a client and, if asked for, a worker. */
  readonly openManaged: (
    worker?: StartWorkerOptions | null,
    wrap?: (provider: Provider) => Provider,
  ) => ReturnType<typeof openManaged>;
  /** A store that others can open too, on the machine's clock. */
  readonly openShared: (
    worker: StartWorkerOptions,
    options?: OpenOptions,
  ) => ReturnType<typeof openShared>;
}

/** Registers a suite once per kind of store. */
export function describeManaged(title: string, suite: (stores: ManagedStores) => void): void {
  for (const kind of ['SQLite', 'PostgreSQL'] as const) {
    describe(`${title} (${kind})`, () => {
      const newStore = engineStores(kind);
      const open = async (): Promise<EngineStore> => {
        const store = await newStore();
        onTestFinished(() => store.remove());
        return store;
      };
      suite({
        openManaged: async (worker, wrap) => openManaged(kind, await open(), { worker, wrap }),
        openShared: async (worker, options) => openShared(await open(), worker, options),
      });
    });
  }
}

/**
 * Lets woken code proceed, and a sweep that it began end: the rests of a sweep are real, whatever the clock says, and so
 * are the ways to a server and back.
 */
function settleWith(sweeping: { isUnderWay: boolean; isStuck: boolean }, isBusy: () => boolean) {
  return async (): Promise<void> => {
    for (let round = 0; round < 20; round += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      while (isBusy() || (sweeping.isUnderWay && !sweeping.isStuck)) {
        await delay(1);
        round = 0;
      }
    }
  };
}

async function openManaged(
  kind: StoreKind,
  { open }: EngineStore,
  {
    worker = {},
    wrap = (provider) => provider,
  }: {
    readonly worker?: StartWorkerOptions | null | undefined;
    readonly wrap?: ((provider: Provider) => Provider) | undefined;
  },
) {
  const sweeping = { isUnderWay: false, isStuck: false };
  const isBusy = kind === 'PostgreSQL' ? watchDriver() : () => false;
  const clock = new FakeClock({ settle: settleWith(sweeping, isBusy) });
  const store = await open({ clock });
  const provider = wrap({
    ...store,
    takeLease: async (lease) => {
      const taken = await store.takeLease(lease);
      if (taken) sweeping.isUnderWay = true;
      return taken;
    },
    releaseLease: async (lease) => {
      await store.releaseLease(lease);
      sweeping.isUnderWay = false;
    },
  });
  const perdure = await Perdure.open(provider, { clock });
  onTestFinished(() => perdure.close());
  const startWorker = (options: StartWorkerOptions) =>
    // Polls would be alarms by the thousand on a clock that skips days.
    perdure.startWorker({ shutdownGrace: 0, pollInterval: '36500d', ...options });
  if (worker !== null) await startWorker({ orchestrations, ...worker });
  return { clock, provider, perdure, client: perdure.client, startWorker, sweeping };
}

async function openShared(
  store: EngineStore,
  worker: StartWorkerOptions,
  options: OpenOptions = {},
) {
  const reopen = async (): Promise<Perdure> => {
    const perdure = await Perdure.open(await store.open(), options);
    onTestFinished(() => perdure.close());
    return perdure;
  };
  const perdure = await reopen();
  await perdure.startWorker({ shutdownGrace: 0, orchestrations, ...worker });
  return { perdure, client: perdure.client, reopen, tamper: store.tamper };
}

/** Starts the quick one under several ids and waits until they are over. */
export async function complete(client: Client, ids: readonly string[]): Promise<void> {
  const handles = await Promise.all(ids.map((id) => client.start(quick, 'done', { id })));
  await Promise.all(handles.map((handle) => handle.result()));
}

/** Lets an instance of `eternal` make its rounds and waits until it has. */
export async function makeRounds(client: Client, id: string, rounds: number): Promise<void> {
  await client.start(eternal, rounds, { id });
  await until(async () => (await client.get(id))?.executionId === rounds + 1);
}

/** Looks until something holds: for what a worker does of itself. */
export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = performance.now() + 40_000;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error('It never came to hold.');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The ids that are left, sorted. */
export async function idsLeft(client: Client): Promise<readonly string[]> {
  const { items } = await client.list({}, { limit: 1_000 });
  return items.map(({ id }) => id).toSorted();
}

/** How many instances a store holds, whatever they are. */
async function countInstances(client: Client): Promise<number> {
  const { instances } = await client.systemMetrics();
  return (Object.keys(instances) as InstanceStatus[]).reduce((sum, one) => sum + instances[one], 0);
}

/** Asserts that nothing at all is left: instances, queues, hidden rows. */
export async function whatIsLeft(client: Client) {
  const { messages, activities, orchestrations: queue } = await client.queueDepths();
  const { pendingReclaims, finishedExecutions } = await client.systemMetrics();
  return {
    instances: await countInstances(client),
    finishedExecutions,
    pendingReclaims,
    messages,
    queued: [activities, queue].reduce((sum, d) => sum + d.ready + d.delayed + d.claimed, 0),
  };
}

export const emptyStore = {
  instances: 0,
  finishedExecutions: 0,
  pendingReclaims: 0,
  messages: 0,
  queued: 0,
};
