import type { Command, Option } from './command.ts';

/** The options of commands that listen. */
const serveOptions: readonly Option[] = [
  { name: 'port', value: 'number', summary: 'Port (default: 7373, or the next free one)' },
  {
    name: 'host',
    value: 'text',
    placeholder: 'address',
    summary: 'Address to listen on (default: loopback); others need --tokens',
  },
  {
    name: 'tokens',
    value: 'path',
    placeholder: 'file',
    summary: 'JSON file with the accepted tokens',
  },
  {
    name: 'allow-host',
    value: 'text',
    placeholder: 'name',
    many: true,
    summary: 'Host name that callers may use',
  },
  { name: 'read-only', summary: 'Reject all writes' },
  { name: 'no-dashboard', summary: 'Serve the API without the dashboard' },
];

const migrate: Option = {
  name: 'migrate',
  summary: 'Apply pending migrations to an older store first',
};

/** The commands that create, run and check a project. */
export const startCommands: readonly Command[] = [
  {
    name: 'init',
    group: 'start',
    summary: 'Create a project from a template',
    operands: [
      {
        name: 'directory',
        summary: 'Directory of the project (default: this one)',
        optional: true,
      },
    ],
    options: [
      {
        name: 'template',
        value: ['hello', 'service', 'agent', 'flow'],
        summary: 'Template (default: hello)',
      },
    ],
    examples: ['perdure init my-project', 'perdure init orders --template service'],
    needs: 'none',
    access: 'write',
    load: () => import('./commands/start/init.ts'),
  },
  {
    name: 'dev',
    group: 'start',
    summary: 'Run a store, a worker that restarts on change, and the dashboard',
    operands: [
      {
        name: 'file',
        summary: 'File that exports the definitions (default: src/worker.ts or worker.ts)',
        optional: true,
      },
    ],
    options: [...serveOptions, migrate],
    examples: ['perdure dev', 'perdure dev src/worker.ts --store app.db --port 8080'],
    needs: 'store',
    access: 'write',
    handlesInterrupt: true,
    load: () => import('./commands/start/dev.ts'),
  },
  {
    name: 'serve',
    group: 'start',
    summary: 'Serve the API and the dashboard of a store, without a worker',
    operands: [],
    options: [...serveOptions, migrate],
    examples: [
      'perdure serve --store app.db',
      'perdure serve --host 0.0.0.0 --allow-host perdure.example.com --tokens tokens.json',
    ],
    needs: 'store',
    access: 'write',
    handlesInterrupt: true,
    load: () => import('./commands/start/serve.ts'),
  },
  {
    name: 'worker',
    group: 'start',
    summary: 'Run the definitions that a file exports',
    operands: [{ name: 'file', summary: 'File that exports the definitions' }],
    options: [
      {
        name: 'worker-name',
        value: 'text',
        placeholder: 'name',
        summary: 'Name of the worker (default: host and process id)',
      },
      migrate,
    ],
    examples: ['perdure worker src/worker.ts --store app.db'],
    needs: 'store',
    access: 'write',
    handlesInterrupt: true,
    load: () => import('./commands/start/worker.ts'),
  },
  {
    name: 'doctor',
    group: 'start',
    summary: 'Find problems of the process, the store and the work in it',
    operands: [],
    options: [],
    examples: ['perdure doctor --store app.db', 'perdure doctor --json'],
    needs: 'target',
    access: 'read',
    load: () => import('./commands/start/doctor.ts'),
  },
  {
    name: 'top',
    group: 'start',
    summary: 'Show counts, throughput, queues and workers on a live screen',
    operands: [],
    options: [
      { name: 'interval', value: 'duration', summary: 'Time between updates (default: 2s)' },
      { name: 'once', summary: 'Print one snapshot' },
    ],
    examples: ['perdure top', 'perdure top --once --json'],
    needs: 'target',
    access: 'read',
    handlesInterrupt: true,
    load: () => import('./commands/start/top.ts'),
  },
  {
    name: 'migrate',
    group: 'start',
    summary: 'Create a store, or apply its pending migrations',
    operands: [],
    options: [
      { name: 'plan', summary: 'Show the pending migrations, and change nothing' },
      { name: 'yes', short: 'y', summary: 'Do not ask for confirmation' },
    ],
    examples: ['perdure migrate --plan', 'perdure migrate --store app.db --yes'],
    needs: 'store',
    access: 'write',
    load: () => import('./commands/start/migrate.ts'),
  },
];
