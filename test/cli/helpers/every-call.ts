import { join } from 'node:path';
import { vi } from 'vitest';
import { counting, failing, hello, sync, talk, waiting, type CliStore } from './cli-store.ts';

/** A call of a command. Each form of output has its own `key`, because many commands change what they name. */
export interface Call {
  readonly argv: readonly string[];
  /** Starts what the command names. */
  readonly before?: (opened: CliStore, key: string) => Promise<unknown>;
  readonly code?: number;
  /** The target is no store. */
  readonly local?: true;
}

const start =
  (definition: typeof waiting | typeof hello | typeof failing | typeof counting) =>
  async ({ perdure: { client } }: CliStore, id: string): Promise<void> => {
    await client.start(definition as typeof hello, 1, { id });
    const status = definition === waiting ? 'running' : undefined;
    if (status === undefined) await client.wait(id).catch(() => undefined);
    else await vi.waitUntil(async () => (await client.get(id))?.status === status);
  };
const started = start(waiting);
const ended = start(hello);
const failed = start(failing);

const schedule = ({ perdure: { client } }: CliStore, name: string): Promise<unknown> =>
  client.schedules.put(name, { every: '1h', orchestration: hello.name });
const session = async ({ perdure: { client } }: CliStore, label: string): Promise<void> => {
  const opened = await client.openSession({ label });
  opened.submit(waiting, undefined, { id: `job-${label}` });
  await vi.waitUntil(async () => (await client.get(`job-${label}`))?.status === 'running');
};
const limited = ({ perdure: { client } }: CliStore): Promise<unknown> =>
  client.limits.set({ kind: 'task', name: sync.name }, { concurrency: { global: 5 } });
const emitted = async ({ perdure: { client } }: CliStore, id: string): Promise<unknown> =>
  (await client.runTask(talk, ['a'], { id })).result();

/** One call of each command that ends by itself. */
export function callsOf(key: string, directory: string): Readonly<Record<string, Call>> {
  return {
    init: { argv: ['init', join(directory, key)], local: true },
    doctor: { argv: ['doctor'] },
    top: { argv: ['top', '--once'] },
    // A server has no command for it.
    migrate: { argv: ['migrate', '--plan', '--store', join(directory, 'store.db')], local: true },
    list: { argv: ['list', '--limit', '3'] },
    show: { argv: ['show', key], before: started },
    why: { argv: ['why', key], before: started },
    state: { argv: ['state', key], before: start(counting) },
    history: { argv: ['history', key], before: ended },
    tree: { argv: ['tree', key], before: ended },
    watch: { argv: ['watch', key], before: ended },
    stream: { argv: ['stream', key], before: emitted },
    result: { argv: ['result', key], before: ended },
    queues: { argv: ['queues'] },
    workers: { argv: ['workers'] },
    tasks: { argv: ['tasks'] },
    flows: { argv: ['flows'] },
    export: { argv: ['export', key, '--out', join(directory, `${key}.json`)], before: ended },
    replay: {
      argv: ['replay', join(directory, `${key}.json`), '--code', join(directory, 'none.ts')],
      code: 2,
      local: true,
    },
    start: { argv: ['start', hello.name, '1', '--id', key] },
    retry: { argv: ['retry', key], before: failed },
    fork: { argv: ['fork', key, '--from', 'start', '--id', `${key}-fork`], before: ended },
    event: { argv: ['event', key, 'go', '1'], before: started },
    update: { argv: ['update', key, 'add', '1'], before: started },
    cancel: { argv: ['cancel', key], before: started },
    terminate: { argv: ['terminate', key, '--yes'], before: started },
    pause: { argv: ['pause', key], before: started },
    resume: { argv: ['resume', key], before: started },
    delete: { argv: ['delete', key, '--yes'], before: ended },
    prune: { argv: ['prune', key, '--keep-last', '1', '--yes'], before: start(counting) },
    'schedules list': { argv: ['schedules', 'list'], before: schedule },
    'schedules show': { argv: ['schedules', 'show', key], before: schedule },
    'schedules trigger': { argv: ['schedules', 'trigger', key], before: schedule },
    'schedules pause': { argv: ['schedules', 'pause', key], before: schedule },
    'schedules resume': { argv: ['schedules', 'resume', key], before: schedule },
    'schedules backfill': {
      argv: ['schedules', 'backfill', key, '--from', '2h', '--dry-run'],
      before: schedule,
    },
    'sessions list': { argv: ['sessions', 'list'], before: session },
    'sessions show': { argv: ['sessions', 'show', key], before: session },
    'sessions shutdown': {
      argv: ['sessions', 'shutdown', key, '--mode', 'forceful', '--yes'],
      before: session,
    },
    retention: { argv: ['retention'] },
    // No worker has a policy.
    'retention run': { argv: ['retention', 'run', '--dry-run'], code: 4 },
    'retention pause': { argv: ['retention', 'pause'] },
    'retention resume': { argv: ['retention', 'resume'] },
    audit: { argv: ['audit'] },
    'limits list': { argv: ['limits', 'list'] },
    'limits show': { argv: ['limits', 'show', sync.name], before: limited },
    'limits set': { argv: ['limits', 'set', sync.name, '--kind', 'task', '--global', '5'] },
    'limits reset': { argv: ['limits', 'reset', sync.name], before: limited },
    'token create': { argv: ['token', 'create', key, '--role', 'read'], local: true },
    completion: { argv: ['completion', 'bash'], local: true },
    version: { argv: ['version'], local: true },
  };
}

/** Commands that run until they are interrupted. Tested as processes, in `processes/`. */
export const endless = ['dev', 'serve', 'worker'];
