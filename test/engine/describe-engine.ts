import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe } from 'vitest';
import { Perdure, type OpenOptions, type StartWorkerOptions } from '../../src/perdure.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { dropHints } from '../../src/testing/drop-hints.ts';

/** An open engine of one test; everything is closed and removed after it. */
interface Engine {
  readonly perdure: Perdure;
  readonly client: Perdure['client'];
  readonly path: string;
  /** Starts one more worker with the mode's options. */
  readonly startWorker: (options: StartWorkerOptions) => ReturnType<Perdure['startWorker']>;
  /** Opens the same store once more, as another process would. */
  readonly reopen: () => Promise<Engine>;
}

interface Mode {
  readonly name: string;
  readonly worker: StartWorkerOptions;
  readonly hints: boolean;
  readonly open?: OpenOptions | undefined;
}

// Every behaviour must be the same whichever short cut is taken.
const modes: readonly Mode[] = [
  { name: 'all fast paths', worker: {}, hints: true },
  { name: 'no fast paths', worker: { fastPaths: false }, hints: true },
  { name: 'no warm cache', worker: { warmCacheBytes: 0 }, hints: true },
  { name: 'a replay after every turn', worker: { alwaysReplay: true }, hints: true },
  // Without hints a handler learns of its cancel when its lease is renewed.
  { name: 'all hints dropped', worker: { activityLease: 300 }, hints: false },
];

/** The modes that differ for what takes no turns: tasks and schedules. */
export const modesWithoutTurns = ['all fast paths', 'all hints dropped'];

/** Registers a behaviour suite once per mode, on a real SQLite file. */
export function describeEngine(
  title: string,
  suite: (open: OpenEngine) => void,
  names = modes.map(({ name }) => name),
): void {
  for (const mode of modes.filter(({ name }) => names.includes(name))) {
    describe(`${title} (${mode.name})`, () => {
      const cleanups: (() => Promise<unknown>)[] = [];
      afterEach(async () => {
        for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
      });
      suite(async (options, openOptions) => {
        const folder = await mkdtemp(join(tmpdir(), 'perdure-engine-'));
        cleanups.push(() => rm(folder, { recursive: true, force: true }));
        const path = join(folder, 'engine.db');
        const engine = await openEngine(path, { ...mode, open: openOptions }, cleanups);
        if (options !== undefined) await engine.startWorker(options);
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
  path: string,
  mode: Mode,
  cleanups: (() => Promise<unknown>)[],
): Promise<Engine> {
  const provider = await openSqlite({ path });
  const perdure = mode.hints
    ? await Perdure.open(provider, mode.open)
    : await Perdure.open(dropHints(provider, 5), { pollInterval: 20, ...mode.open });
  cleanups.push(() => perdure.close());
  return {
    perdure,
    client: perdure.client,
    path,
    startWorker: (options) =>
      perdure.startWorker({ shutdownGrace: 200, ...mode.worker, ...options }),
    reopen: () => openEngine(path, mode, cleanups),
  };
}
