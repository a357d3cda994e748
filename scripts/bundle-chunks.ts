/**
 * Which module of src/ goes into which chunk of dist/. Every module is in one chunk, so all entry points share its classes.
 *
 * The chunks are cut by reachability: each contains what its modules reach and no earlier chunk has. A chunk therefore imports
 * only earlier ones, and a program loads few files that it does not need.
 */

/** The modules that each of these modules reaches through static imports, itself included. */
export type Reachable = (entry: string) => ReadonlySet<string>;

interface ChunkRule {
  readonly name: string;
  readonly contains: (reachable: Reachable) => ReadonlySet<string>;
}

/** The modules that threads start with. */
export const THREADS: readonly string[] = [
  'runtime/activities/activity-thread',
  'runtime/watchdog/watchdog-thread',
];

/** In this order: a module belongs to the first chunk that contains it. */
const CHUNKS: readonly ChunkRule[] = [
  // Each process with a worker has a watchdog thread, so it loads nothing else.
  { name: 'watchdog', contains: (reachable) => reachable('runtime/watchdog/watchdog-thread') },
  // Threads and telemetry load little of the package.
  {
    name: 'base',
    contains: (reachable) => {
      const small = union([...THREADS, 'otel', 'codecs', 'provider'].map(reachable));
      return intersect(small, reachable('remote'));
    },
  },
  // What browsers load: earlier chunks contain only modules that they reach.
  { name: 'client', contains: (reachable) => intersect(reachable('remote'), reachable('index')) },
  { name: 'remote', contains: (reachable) => reachable('remote') },
  { name: 'threads', contains: (reachable) => union(THREADS.map(reachable)) },
  {
    name: 'store',
    contains: (reachable) => {
      const [sqlite, postgres] = [reachable('sqlite'), reachable('postgres')];
      const both = intersect(sqlite, postgres);
      return union([both, intersect(union([sqlite, postgres]), reachable('index'))]);
    },
  },
  { name: 'core', contains: (reachable) => reachable('index') },
  { name: 'sqlite', contains: (reachable) => reachable('sqlite') },
  { name: 'postgres', contains: (reachable) => reachable('postgres') },
  { name: 'flows', contains: (reachable) => reachable('flows') },
  { name: 'server', contains: (reachable) => reachable('server') },
  { name: 'dashboard', contains: (reachable) => reachable('dashboard') },
];

/** Modules that are a file of their own: each entry point imports the first one before anything else. */
const ALONE: ReadonlySet<string> = new Set(['require-node', ...THREADS]);

/** Returns the chunk of each module. Modules without one are split by the bundler, such as the commands. */
export function assignChunks(reachable: Reachable): ReadonlyMap<string, string> {
  const chunks = new Map<string, string>();
  for (const { name, contains } of CHUNKS) {
    for (const module of contains(reachable)) {
      if (!chunks.has(module) && !ALONE.has(module)) chunks.set(module, name);
    }
  }
  return chunks;
}

function union(sets: readonly ReadonlySet<string>[]): ReadonlySet<string> {
  return new Set(sets.flatMap((set) => [...set]));
}

function intersect(one: ReadonlySet<string>, other: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...one].filter((module) => other.has(module)));
}
