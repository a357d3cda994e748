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

/** Lets a waiting instance continue. */
const go = event<string>('go');

/** Ends immediately. */
export const quick = orchestration('quick', async (_ctx, input: string) => input);

/** Fails immediately. */
export const fails = orchestration('fails', async (): Promise<void> => {
  throw new Error('on purpose');
});

/** Ends when the event `go` arrives. */
export const waits = orchestration('waits', async (ctx) => ctx.waitFor(go));

/** Continues as new until its input is 0, then ends when `go` arrives. */
export const eternal = orchestration('eternal', async (ctx, rounds: number): Promise<unknown> => {
  if (rounds > 0) return ctx.continueAsNew(rounds - 1);
  return ctx.waitFor(go);
});

/** Starts a chain of children. The last one ends immediately, or when `go` arrives. */
export const chain = orchestration(
  'chain',
  async (ctx, input: { readonly below: number; readonly wait: boolean }): Promise<string> => {
    const { below, wait } = input;
    if (below === 0) return wait ? ctx.waitFor(go) : 'bottom';
    return ctx.child(chain, { below: below - 1, wait }, { id: `${ctx.instanceId}-c` });
  },
);

/** Starts many children in parallel. */
export const wide = orchestration('wide', async (ctx, width: number) => {
  const ids = Array.from({ length: width }, (_, index) => `${ctx.instanceId}-${index}`);
  await ctx.all(ids.map((id) => ctx.child(quick, 'leaf', { id })));
});

/** Starts one more child per event `more`. */
export const grows = orchestration('grows', async (ctx) => {
  for (let count = 0; ; count += 1) {
    await ctx.waitFor('more');
    ctx.child(waits, undefined, { id: `${ctx.instanceId}-${count}` }).catch(() => undefined);
  }
});

/** Ends and leaves a running child. */
export const leaves = orchestration('leaves', async (ctx) => {
  void ctx.child(waits, undefined, { id: `${ctx.instanceId}-child`, cancellation: 'abandon' });
  await ctx.sleep(0);
});

/** When canceled, cleans up until the event `tidy` arrives. */
export const tidies = orchestration('tidies', async (ctx) => {
  try {
    await ctx.waitFor(go);
  } finally {
    await ctx.shield(() => ctx.waitFor('tidy'));
  }
});

export const orchestrations = [quick, fails, waits, eternal, chain, wide, grows, leaves, tidies];

/** Opens the stores of a suite. */
interface ManagedStores {
  /** A store on a fake clock, with a client and, unless `worker` is null, a worker. */
  readonly openManaged: (
    worker?: StartWorkerOptions | null,
    wrap?: (provider: Provider) => Provider,
  ) => ReturnType<typeof openManaged>;
  /** A store on the system clock that other clients can open. */
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
 * Waits until woken code and a sweep that it started are idle. Pauses of a sweep and round trips to a server take real
 * time.
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
      // The minute series has a lease of its own, which it keeps.
      if (taken && lease.name === 'retention') sweeping.isUnderWay = true;
      return taken;
    },
    releaseLease: async (lease) => {
      await store.releaseLease(lease);
      if (lease.name === 'retention') sweeping.isUnderWay = false;
    },
  });
  const perdure = await Perdure.open(provider, { clock });
  onTestFinished(() => perdure.close());
  const startWorker = (options: StartWorkerOptions) =>
    // Polling would set thousands of alarms on a clock that skips days.
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

/** Runs `quick` under each id and waits for the results. */
export async function complete(client: Client, ids: readonly string[]): Promise<void> {
  const handles = await Promise.all(ids.map((id) => client.start(quick, 'done', { id })));
  await Promise.all(handles.map((handle) => handle.result()));
}

/** Runs `eternal` with this many continue-as-new, and waits until they are done. */
export async function runExecutions(client: Client, id: string, rounds: number): Promise<void> {
  await client.start(eternal, rounds, { id });
  await until(async () => (await client.get(id))?.executionId === rounds + 1);
}

/** Polls until the condition holds. */
export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = performance.now() + 40_000;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error('The condition did not hold within 40 s.');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The ids of the remaining instances, sorted. */
export async function remainingIds(client: Client): Promise<readonly string[]> {
  const { items } = await client.list({}, { limit: 1_000 });
  return items.map(({ id }) => id).toSorted();
}

/** The number of instances of any status. */
async function countInstances(client: Client): Promise<number> {
  const { instances } = await client.systemMetrics();
  return (Object.keys(instances) as InstanceStatus[]).reduce((sum, one) => sum + instances[one], 0);
}

/** Counts everything a store still holds: instances, executions, queue entries, hidden rows. */
export async function countRemaining(client: Client) {
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
