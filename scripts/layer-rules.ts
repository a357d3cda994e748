/** The layers of src/ and the arrows between them. A change here is a change of the architecture. */

/** Matches every layer: the entry points compose the package, and the testing kit may import internals. */
const ANYTHING = '*';

/** The folders of a store, the lowest first: each may import those before it. The files of the store's own folder compose them. */
const STORE_FOLDERS: readonly string[] = [
  'driver',
  'migrations',
  'tables',
  'starts',
  'batches',
  'limits',
  'tasks',
  'stopping',
  'instances',
  'wakeups',
  'queues',
  'jobs',
  'schedules',
  'reading',
  'deletion',
  'reruns',
  'pausing',
  'single-statement',
];

/** Folders whose modules take the whole store, as a type. */
const KNOWS_ITS_STORE: Readonly<Record<string, readonly string[]>> = {
  'providers/sqlite': ['reading'],
  'providers/postgres': ['instances'],
};

const BELOW_A_STORE = ['providers/contract', 'providers/rules', 'providers/shared', 'model'];

function storeArrows(store: string): Record<string, readonly string[]> {
  const layers = STORE_FOLDERS.map((folder) => `${store}/${folder}`);
  const folders = STORE_FOLDERS.map((folder, place): [string, readonly string[]] => [
    `${store}/${folder}`,
    [
      ...layers.slice(0, place),
      ...(KNOWS_ITS_STORE[store]?.includes(folder) === true ? [store] : []),
      ...BELOW_A_STORE,
    ],
  ]);
  return { [store]: [...layers, ...BELOW_A_STORE], ...Object.fromEntries(folders) };
}

/** Which layers the modules of a layer may import, besides their own. */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  public: [ANYTHING],
  entry: [ANYTHING],
  testing: [ANYTHING],
  model: [],
  replay: ['model'],
  // Imports the client as a type: handlers get one.
  orchestration: ['model', 'replay', 'client'],
  'providers/contract': ['model'],
  'providers/rules': ['providers/contract', 'model'],
  'providers/shared': ['providers/rules', 'providers/contract', 'model'],
  ...storeArrows('providers/sqlite'),
  ...storeArrows('providers/postgres'),
  'providers/encoding': ['schedules', 'providers/contract', 'model'],
  codecs: ['model'],
  management: ['providers/contract', 'model'],
  runtime: [
    'tasks',
    'schedules',
    'orchestration',
    'replay',
    'management',
    'providers/rules',
    'providers/contract',
    'model',
  ],
  client: ['jobs', 'schedules', 'management', 'providers/rules', 'providers/contract', 'model'],
  // Jobs use a store only through their backend. They share call parsing and instance serialization with the client.
  jobs: ['client', 'providers/contract', 'model'],
  tasks: ['orchestration', 'model'],
  schedules: ['providers/contract', 'model'],
  flows: ['public'],
  // The table of routes: data and types only, for the server and its clients.
  'server/routes': ['client', 'jobs', 'flows', 'management', 'providers/contract', 'model'],
  server: [
    'server/routes',
    'public',
    'client',
    'jobs',
    'flows',
    'management',
    'providers/contract',
    'model',
    // Loaded by `serve` if it is asked for the dashboard.
    'dashboard/server',
  ],
  // Imports the table of routes of the server as a type only, because it runs in browsers.
  remote: ['server/routes', 'client', 'jobs', 'management', 'providers/contract', 'model'],
  // The app in browsers: like the remote client, it knows the server by its table of routes alone.
  'dashboard/app': ['remote', 'server/routes'],
  dashboard: [],
  'dashboard/server': ['server', 'server/routes', 'client', 'model'],
  otel: ['model'],
  // The command line uses the package as an application does. It also composes a client of a store without the workers,
  // because a command must start fast.
  cli: [
    'public',
    'entry',
    'server',
    'server/routes',
    'client',
    'jobs',
    'management',
    // Replays an exported history.
    'testing',
    'providers/contract',
    // Reports on a store that cannot be opened, for `doctor` and `migrate`.
    'providers/shared',
    'providers/sqlite',
    'providers/postgres',
    'model',
  ],
};

/** The only layers that may import these packages. Every layer may import modules of Node.js. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  'better-sqlite3': ['providers/sqlite'],
  pg: ['providers/postgres'],
  croner: ['schedules'],
  zod: ['server/routes', 'server', 'cli'],
  '@opentelemetry/api': ['otel'],
  vitest: ['testing'],
  vite: ['dashboard'],
  preact: ['dashboard/app'],
  'preact/hooks': ['dashboard/app'],
  '@preact/signals': ['dashboard/app'],
  '@dagrejs/dagre': ['dashboard/app'],
  uplot: ['dashboard/app'],
};

/** The app of the dashboard. Vite bundles its packages and assets, so browsers need no others. */
const APP = 'dashboard/app/';

/** Whether an import of the app is a style or a font, not a module. */
export function isAsset(path: string, specifier: string): boolean {
  return path.startsWith(APP) && /\.(css|svg|woff2)(\?\w+)?$/.test(specifier);
}

/** Whether Vite bundles the packages that a module imports. */
export function isBundled(path: string): boolean {
  return path.startsWith(APP);
}

/** Modules that may import a computed name: they load users' handlers, or the store in a thread. */
const LOADS_USER_CODE: readonly string[] = [
  'cli/running/worker-module.ts',
  'cli/commands/look/replay.ts',
  'runtime/activities/activity-thread.ts',
  'runtime/watchdog/blocked-claims.ts',
];

/** The entry points that browsers load: they must not depend on Node.js. */
export const BROWSER_ENTRIES: readonly string[] = [
  'remote.ts',
  'codecs.ts',
  'dashboard/app/main.tsx',
];

/** Whether a module may import a computed name. */
export function mayImportComputed(path: string): boolean {
  return LOADS_USER_CODE.includes(path);
}

/** The layer of a path below src/, or undefined when no rule names its folder. */
export function layerOf(path: string): string | undefined {
  if (path === 'index.ts') return 'public';
  const folders = path.split('/').slice(0, -1);
  if (folders.length === 0) return 'entry';
  if (path.startsWith('server/routes/')) return 'server/routes';
  if (path.startsWith('dashboard/server/')) return 'dashboard/server';
  if (path.startsWith('dashboard/app/')) return 'dashboard/app';
  // Each folder of a store is a layer.
  const layer = folders[0] === 'providers' ? folders.slice(0, 3).join('/') : folders[0];
  return layer !== undefined && Object.hasOwn(ARROWS, layer) ? layer : undefined;
}

/** Whether a module of one layer may import a module of another. */
export function mayImport(from: string, to: string): boolean {
  const allowed = ARROWS[from] ?? [];
  return from === to || allowed.includes(to) || allowed.includes(ANYTHING);
}

/** Whether a module of this layer may import the package of this specifier. */
export function mayImportPackage(layer: string, specifier: string): boolean {
  if (specifier.startsWith('node:')) return true;
  return PACKAGES[specifier]?.some((one) => layer === one || layer.startsWith(`${one}/`)) ?? false;
}
