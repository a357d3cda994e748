import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { failedSchema } from '../../src/cli/schemas.ts';
import {
  counting,
  failing,
  hello,
  openCliStore,
  sync,
  talk,
  waiting,
  type CliStore,
} from './helpers/cli-store.ts';
import { runCli } from './helpers/run-cli.ts';
import { cliOf, expectSchema } from './helpers/targets.ts';

/** A call of a command. Each form of output has its own `key`, because many commands change what they name. */
interface Call {
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
function callsOf(key: string, directory: string): Readonly<Record<string, Call>> {
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
    'retention run': { argv: ['retention', 'run', '--dry-run'], code: 2 },
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
const endless = ['dev', 'serve', 'worker'];
// oxlint-disable-next-line eslint/no-control-regex -- finds escapes
const escapes = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/;

let opened: CliStore;
beforeAll(async () => {
  opened = await openCliStore();
});
afterAll(() => opened[Symbol.asyncDispose]());

it('this test calls every command', () => {
  const names = [...Object.keys(callsOf('', '/')), ...endless];
  expect(names.toSorted()).toEqual(commands.map(({ name }) => name).toSorted());
});

describe.each(['store', 'server'] as const)('over a %s', (kind) => {
  it.each(Object.keys(callsOf('', '/')))(
    '%s prints text to a pipe and to a terminal without escapes, and JSON of its schema',
    async (name) => {
      for (const form of ['piped', 'terminal', 'json'] as const) {
        const key = `${name.replace(' ', '-')}-${kind}-${form}`;
        const { argv, before, code = 0, local } = callsOf(key, opened.directory)[name] as Call;
        await before?.(opened, key);
        const args = form === 'json' ? [...argv, '--json'] : argv;
        const surroundings = form === 'terminal' ? { columns: 40 } : {};
        const called =
          local === true ? runCli(args, surroundings) : cliOf(opened, kind).run(args, surroundings);
        const { stdout, stderr, code: found } = await called;
        expect({ argv: args, code: found, stderr }).toMatchObject({ code });
        // A terminal has progress bars on the standard error.
        expect(form === 'terminal' ? stdout : `${stdout}${stderr}`).not.toMatch(escapes);
        if (form !== 'json') continue;
        if (code !== 0) {
          expect(failedSchema.safeParse(JSON.parse(stderr))).toMatchObject({ success: true });
          continue;
        }
        const isLines = name === 'watch' || name === 'stream';
        for (const line of isLines ? stdout.trim().split('\n') : [stdout])
          expectSchema(argv, JSON.parse(line));
      }
    },
  );
});
