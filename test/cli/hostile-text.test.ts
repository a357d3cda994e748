import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { orchestration } from 'perdure';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { hello, openCliStore, waiting, type CliStore } from './helpers/cli-store.ts';
import { runCli } from './helpers/run-cli.ts';
import { cliOf } from './helpers/targets.ts';

/** Reverses the text that follows it. Ids and names may have it. */
const reversed = '\u202E';
/** Clears the screen, in both encodings. Payloads, failures and reasons may have them. */
const clears = '\u001B[2J\u009B2J\u007F';
/** What must not reach a terminal. */
const raw = /(?!\n)[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/u;

const names = { done: `done${reversed}`, failed: `failed${reversed}`, open: `open${reversed}` };
const hostile = orchestration(`fails${reversed}`, async () => {
  throw Object.assign(new Error(`declined ${clears}`), { code: `CODE${clears}` });
});

/** Command lines that print stored text. */
function commandsOf(kind: string): readonly (readonly string[])[] {
  return [
    ['list'],
    ['list', '--limit', '1'],
    ['list', '--json'],
    ...Object.values(names).flatMap((id) => [
      ['show', id],
      ['show', id, '--json'],
      ['why', id],
      ['history', id],
      ['tree', id],
      ['export', id],
    ]),
    ['result', names.done],
    ['result', names.failed],
    ['result', names.failed, '--json'],
    ['watch', names.done],
    ['watch', names.failed],
    ['watch', names.done, names.failed],
    ['show', `missing${reversed}`],
    ['show', `missing${reversed}`, '--json'],
    ['start', hello.name, '1', '--id', `started${reversed}-${kind}`],
    ['start', hello.name, '1', '--id', `waited${reversed}-${kind}`, '--wait'],
    ['fork', names.done, '--from', 'start', '--id', `fork${reversed}-${kind}`],
    ['retry', names.open],
    ['cancel', names.done],
    ['delete', names.open, '--yes'],
    ['event', names.done, `event${reversed}`],
    ['pause', '--definition', `missing${reversed}`],
    ['resume', '--definition', `missing${reversed}`],
    ['schedules', 'list', '--limit', '1'],
    ['schedules', 'show', `s1${reversed}`],
    ['schedules', 'pause', `s1${reversed}`],
    ['schedules', 'trigger', `s1${reversed}`, '--key', `key${reversed}-${kind}`],
    ['queues'],
    ['workers'],
    ['audit'],
    ['top', '--once'],
    ['doctor'],
  ];
}

let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
  const { client } = opened.perdure;
  await opened.perdure.startWorker({ name: `worker${reversed}`, orchestrations: [hostile] });
  const tags = { note: `a${reversed}b` };
  const text = `text ${clears}${reversed}`;
  await (await client.start(hello, text, { id: names.done, tags })).result();
  await (await client.start(hostile.name, text, { id: names.failed })).result().catch(() => null);
  await client.start(waiting.name, text, { id: names.open });
  await client.start(`unknown${reversed}`, text, { id: `unknown${reversed}` });
  for (const name of [`s1${reversed}`, `s2${reversed}`]) {
    await client.schedules.put(name, { every: '1h', orchestration: waiting.name });
  }
  await vi.waitUntil(async () => (await client.get(names.open))?.status === 'running');
  await client.pause(names.open, { reason: text, actor: `ada${reversed}` });
});

afterAll(() => opened[Symbol.asyncDispose]());

describe.each(['store', 'server'] as const)('over a %s', (kind) => {
  it.each(
    commandsOf(kind).map((argv) => ({ line: argv.join(' ').replaceAll(reversed, ''), argv })),
  )('$line sends no control and bidirectional characters to a terminal', async ({ argv }) => {
    const { stdout, stderr } = await cliOf(opened, kind).run(argv, { columns: 80 });
    expect(stdout + stderr).not.toBe('');
    expect(`${stdout}${stderr}`.match(raw)).toBeNull();
  });

  it('a pipe gets the exact id, and JSON with the same values', async () => {
    const cli = cliOf(opened, kind);
    const id = `piped${reversed}-${kind}`;
    expect((await cli.run(['start', hello.name, '1', '--id', id])).stdout).toBe(`${id}\n`);
    const { stdout, json } = await cli.run(['show', names.done, '--json']);
    expect(stdout).not.toMatch(raw);
    expect(json).toMatchObject({ id: names.done, input: `text ${clears}${reversed}` });
  });
});

it('a timeout of start --wait names the id of the instance', async () => {
  const argv = ['start', 'unknown', '--id', 'late 1', '--wait', '--timeout', '50ms'];
  const { code, stderr } = await cliOf(opened, 'store').run(argv);
  expect(code).toBe(6);
  expect(stderr).toContain(`\`perdure why 'late 1' --store ${opened.store}\``);
});

it.each([
  ['-dash', '-- -dash'],
  ['a b; id', "'a b; id'"],
  ['$&', "'$&'"],
])('the next command quotes the id %s', async (id, quoted) => {
  await opened.perdure.client.start('unknown', undefined, { id });
  const env = { PERDURE_STORE: opened.store };
  const { stderr } = await runCli(['delete', '--yes', '--', id], { cwd: opened.directory, env });
  expect(stderr).toContain(`\`perdure cancel --wait ${quoted}\``);
  expect(stderr).toContain(`\`perdure terminate ${quoted}\``);
});

it('the version and the error of a server reach a terminal escaped', async () => {
  const version = `9.1.0${clears}; rm -rf ~`;
  const server = createServer((request, response) => {
    const isMe = request.url === '/v1/me';
    const error = { code: 'UNAVAILABLE', message: `busy ${clears}` };
    response.writeHead(isMe ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isMe ? { role: 'admin', server: { version } } : { error }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { code, stderr } = await runCli(['list', '--server', url], {
    columns: 80,
    cwd: join(opened.directory),
  });
  expect(code).not.toBe(0);
  expect(stderr.match(raw)).toBeNull();
  expect(stderr).not.toContain('rm -rf');
});
