import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { testOptions } from 'perdure/testing';
import type { Client } from '../../src/index.ts';
import { Perdure, type OpenOptions, type StartWorkerOptions } from '../../src/perdure.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { serve } from '../../src/server/serve.ts';
import { dropHints } from '../../src/testing/drop-hints.ts';
import { engineStores, type EngineStore, type StoreKind } from './engine-store.ts';

/** The engine of one test, closed and deleted after it. */
interface Engine {
  readonly perdure: Perdure;
  readonly client: Client;
  /** Opens the store without an engine. The test closes it. */
  readonly openProvider: () => Promise<Provider>;
  /** Changes rows directly, with SQL that all stores accept. Returns the number of rows. */
  readonly tamper: (sql: string) => Promise<number>;
  /** Starts another worker with the options of the mode. */
  readonly startWorker: (options: StartWorkerOptions) => ReturnType<Perdure['startWorker']>;
  /** Opens another engine on the same store, as another process would. */
  readonly reopen: () => Promise<Engine>;
}

interface Mode {
  readonly name: string;
  readonly store: StoreKind;
  readonly worker: StartWorkerOptions;
  readonly hints: boolean;
  /** Use a client that connects to a server. */
  readonly remote?: true;
  readonly open?: OpenOptions | undefined;
}

// Every behavior must be the same with and without each optimization.
const modes: readonly Mode[] = [
  { name: 'all fast paths', store: 'SQLite', worker: {}, hints: true },
  {
    name: 'no fast paths',
    store: 'SQLite',
    worker: testOptions({ fastPaths: false }),
    hints: true,
  },
  {
    name: 'a replay after every turn',
    store: 'SQLite',
    worker: testOptions({ alwaysReplay: true }),
    hints: true,
  },
  // Without hints a handler gets its cancel when its lease is renewed.
  { name: 'all hints dropped', store: 'SQLite', worker: { activityLease: 300 }, hints: false },
  { name: 'PostgreSQL', store: 'PostgreSQL', worker: {}, hints: true },
];

// A replay after every turn needs no cache either, so only suites that name this mode and `npm run test:modes` run it.
const noWarmCache: Mode = {
  name: 'no warm cache',
  store: 'SQLite',
  worker: { warmCacheBytes: 0 },
  hints: true,
};

// Tests the client, not orchestrations and handlers. Runs in suites that name it and in `npm run test:modes`.
const overHttp: Mode = {
  name: 'over HTTP',
  store: 'SQLite',
  worker: {},
  hints: true,
  remote: true,
};

// These modes disable parts above the store, so a normal run covers them on SQLite only.
const longerModes: readonly Mode[] = [
  {
    name: 'PostgreSQL, no fast paths',
    store: 'PostgreSQL',
    worker: testOptions({ fastPaths: false }),
    hints: true,
  },
  {
    name: 'PostgreSQL, all hints dropped',
    store: 'PostgreSQL',
    worker: { activityLease: 1_000 },
    hints: false,
  },
  // `test/remote` covers both stores in a normal run.
  { name: 'PostgreSQL, over HTTP', store: 'PostgreSQL', worker: {}, hints: true, remote: true },
];

const allModes = [...modes, noWarmCache, overHttp, ...longerModes];
const isLongRun = process.env['MODE'] === 'all-modes';
const modesOfThisRun = isLongRun ? allModes : modes;

/** The modes of a suite. In a long run, suites over HTTP also run on PostgreSQL. */
function modesNamed(names: readonly string[]): readonly Mode[] {
  const withStores = isLongRun && names.includes(overHttp.name);
  return allModes.filter(
    ({ name, remote }) => names.includes(name) || (withStores && remote === true),
  );
}

/** Modes for tests without turns, such as those of tasks. */
export const modesWithoutTurns = ['all fast paths', 'all hints dropped', 'PostgreSQL', 'over HTTP'];

/**
 * Modes for flows. They use the store only through orchestrations, so a normal run needs fewer modes; `npm run test:modes`
 * adds the others.
 */
export const modesOfFlows = isLongRun
  ? [...modes, noWarmCache].map(({ name }) => name)
  : ['all fast paths', 'a replay after every turn', 'PostgreSQL'];

/** Registers a suite once per mode, each on a real database. */
export function describeEngine(
  title: string,
  suite: (open: OpenEngine) => void,
  names = modesOfThisRun.map(({ name }) => name),
): void {
  for (const mode of modesNamed(names)) {
    describe(`${title} (${mode.name})`, () => {
      const newStore = engineStores(mode.store);
      const cleanups: (() => Promise<unknown>)[] = [];
      afterEach(async () => {
        for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
      });
      suite(async (options, openOptions) => {
        const store = await newStore();
        cleanups.push(() => store.remove());
        const engine = await openEngine(store, { ...mode, open: openOptions }, cleanups);
        if (options !== undefined) await engine.startWorker(options);
        return engine;
      });
    });
  }
}

/** Registers a suite once per mode. Its tests share one engine with one worker, so that they can run concurrently. */
export function describeSharedEngine(
  title: string,
  options: StartWorkerOptions,
  suite: (engine: () => Engine) => void,
  names = modesOfThisRun.map(({ name }) => name),
): void {
  for (const mode of modesNamed(names)) {
    describe(`${title} (${mode.name})`, () => {
      const newStore = engineStores(mode.store);
      const cleanups: (() => Promise<unknown>)[] = [];
      let engine: Engine | undefined;
      beforeAll(async () => {
        const store = await newStore();
        cleanups.push(() => store.remove());
        engine = await openEngine(store, mode, cleanups);
        await engine.startWorker(options);
      });
      afterAll(async () => {
        for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
      });
      suite(() => {
        if (engine === undefined) throw new Error('Use the engine inside a test.');
        return engine;
      });
    });
  }
}

/** Opens an engine and, when options are given, starts a worker with them. */
export type OpenEngine = (
  options?: StartWorkerOptions,
  openOptions?: OpenOptions,
) => Promise<Engine>;

async function openEngine(
  store: EngineStore,
  mode: Mode,
  cleanups: (() => Promise<unknown>)[],
): Promise<Engine> {
  const provider = await store.open();
  const perdure = mode.hints
    ? await Perdure.open(provider, mode.open)
    : await Perdure.open(dropHints(provider, 5), { pollInterval: 20, ...mode.open });
  cleanups.push(() => perdure.close());
  return {
    perdure,
    client: mode.remote === true ? await connect(perdure, cleanups) : perdure.client,
    openProvider: () => store.open(),
    tamper: (sql) => store.tamper(sql),
    startWorker: (options) =>
      perdure.startWorker({ shutdownGrace: 200, ...mode.worker, ...withLease(mode, options) }),
    reopen: () => openEngine(store, mode, cleanups),
  };
}

async function connect(perdure: Perdure, cleanups: (() => Promise<unknown>)[]): Promise<Client> {
  const server = await serve(perdure, { port: 0, limits: { changesPerSecond: 1_000_000 } });
  cleanups.push(() => server.close());
  const connection = await Perdure.connect(server.url);
  cleanups.push(() => connection.close());
  return connection.client;
}

/** Extends short leases on PostgreSQL, where a renewal takes longer on a busy machine. */
function withLease({ store }: Mode, options: StartWorkerOptions): StartWorkerOptions {
  const { activityLease } = options;
  return store === 'PostgreSQL' && typeof activityLease === 'number'
    ? { ...options, activityLease: activityLease * 4 }
    : options;
}
