import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { defaultStore } from '../../src/cli/target/choose-target.ts';
import { reportOf } from '../../src/cli/exit-codes.ts';
import { PerdureError, type ErrorCode } from '../../src/model/failures/errors.ts';
import { migrate, migrations } from '../../src/providers/sqlite/migrations/migrate.ts';
import { hello, openCliStore, type CliStore } from './helpers/cli-store.ts';
import { runCli } from './helpers/run-cli.ts';
import { cliOf } from './helpers/targets.ts';

let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
  await (await opened.perdure.client.start(hello, 1, { id: 'hello-1' })).result();
});

afterAll(() => opened[Symbol.asyncDispose]());

/** Starts a server that answers every request with this. */
async function startServer(
  answer: (path: string) => { readonly status?: number; readonly body: unknown },
): Promise<string> {
  const server = createServer((request, response) => {
    const { status = 200, body } = answer(request.url ?? '');
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function folder(name: string, config?: unknown): string {
  const path = join(opened.directory, name);
  mkdirSync(path, { recursive: true });
  if (config !== undefined) {
    const text = typeof config === 'string' ? config : JSON.stringify(config);
    writeFileSync(join(path, 'perdure.config.json'), text);
  }
  return path;
}

const count = ['list', '--count', '--name', 'hello'];

describe('the choice of a target', () => {
  it('PERDURE_STORE and PERDURE_SERVER choose it', async () => {
    const { store, url, tokens } = opened;
    expect(await runCli(count, { env: { PERDURE_STORE: store } })).toMatchObject({ stdout: '1\n' });
    const env = { PERDURE_SERVER: url, PERDURE_TOKEN: tokens.read };
    expect(await runCli(count, { env })).toMatchObject({ code: 0, stdout: '1\n' });
    const both = await runCli(count, { env: { ...env, PERDURE_STORE: store } });
    expect(both).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('a store and a server'),
    });
  });

  it('an option overrides the environment', async () => {
    const env = { PERDURE_STORE: '/nonexistent/other.db' };
    expect(await runCli([...count, '--store', opened.store], { env })).toMatchObject({ code: 0 });
  });

  it('the profile default of the project, and --profile, with paths relative to the file', async () => {
    const token = join(opened.directory, 'read.token');
    writeFileSync(token, `${opened.tokens.read}\n`);
    const cwd = folder('profiles', {
      profiles: {
        default: { store: '../store.db' },
        server: { server: opened.url, tokenFile: '../read.token' },
      },
    });
    expect(await runCli(count, { cwd })).toMatchObject({ code: 0, stdout: '1\n' });
    const server = await runCli([...count, '--profile', 'server'], { cwd });
    expect(server).toMatchObject({ code: 0, stdout: '1\n' });
    expect(await runCli([...count, '--profile', 'sever'], { cwd })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Did you mean server?'),
    });
  });

  it('the configuration of the user; without a home directory it is skipped', async () => {
    const home = folder('home/.config/perdure');
    writeFileSync(
      join(home, 'config.json'),
      JSON.stringify({ profiles: { default: { store: opened.store } } }),
    );
    const cwd = folder('elsewhere');
    const surroundings = { cwd, home: join(opened.directory, 'home') };
    expect(await runCli(count, surroundings)).toMatchObject({ code: 0 });
    expect(await runCli(count, { cwd })).toMatchObject({ code: 2 });
  });

  it('./perdure.db is used if it exists', async () => {
    const cwd = folder('default-store');
    const db = new Database(join(cwd, defaultStore));
    migrate(db, 1);
    db.close();
    expect(await runCli(count, { cwd })).toMatchObject({ code: 0, stdout: '0\n' });
  });

  it.each([
    ['invalid JSON', '{', 'Invalid JSON in the configuration'],
    ['profiles of the wrong type', { profiles: [] }, 'use an object of profiles'],
    ['an unknown field', { profiles: { default: { stor: 'a' } } }, 'Did you mean `store`?'],
    ['a wrong type', { profiles: { default: { store: 1 } } }, 'Invalid `store`'],
  ])('a configuration with %s ends with 2', async (name, config, text) => {
    const cwd = folder(`config ${name}`, config);
    const { code, stderr } = await runCli(count, { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain(text);
  });

  it.each([
    'postgres://app:secret-4711@127.0.0.1:1/db',
    'postgres://127.0.0.1:1/db?user=app&password=secret-4711',
  ])('a password in --store %s gives a warning, and no message contains it', async (url) => {
    const { code, stderr } = await runCli(['list', '--store', url]);
    expect(code).toBe(5);
    expect(stderr).toContain('Use PERDURE_STORE or a profile.');
    expect(stderr).not.toContain('secret-4711');
  });
});

describe('a store that cannot be used', () => {
  it.each(['list', 'doctor', 'serve', 'migrate'])(
    '%s rejects :memory:, which no other process shares',
    async (command) => {
      const { code, stdout, stderr } = await runCli([command, '--store', ':memory:'], {
        cwd: opened.directory,
      });
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain('--store is :memory:, a store that ends with its process.');
    },
  );

  const newer = { number: migrations.length + 1, name: 'newer', sql: 'CREATE TABLE newer (a);' };

  it.each([
    ['older', migrations.slice(0, -1), 'STORE_TOO_OLD', 'perdure migrate'],
    ['newer', [...migrations, newer], 'STORE_TOO_NEW', 'npx perdure@latest'],
  ])('an %s store ends with 4 and is not changed', async (name, known, errorCode, next) => {
    const file = join(opened.directory, `${name}.db`);
    const db = new Database(file);
    migrate(db, 1, known);
    const { code, stderr } = await runCli(['list', '--store', file]);
    expect(code).toBe(4);
    expect(stderr).toContain(next);
    const json = await runCli(['list', '--store', file, '--json']);
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: errorCode, exitCode: 4 } });
    const applied = db.prepare('SELECT count(*) FROM perdure_migrations').pluck().get();
    expect(applied).toBe(known.length);
    db.close();
  });

  it('a missing file ends with 5, and is not created', async () => {
    const { code, stderr } = await runCli(['list', '--store', 'missing.db'], {
      cwd: opened.directory,
    });
    expect(code).toBe(5);
    // The suggested command has the same store.
    expect(stderr).toMatch(
      /missing\.db" does not exist[\s\S]*`perdure doctor --store missing\.db`/,
    );
  });

  it.each([
    ['an empty path', '', '--store is empty.', 'path of an SQLite file'],
    ['another scheme', 'mysql://app@host/db', 'begins with `mysql://`', 'postgres://'],
    ['a directory', '.', '--store is a directory: "."', 'such as "perdure.db"'],
  ])('%s ends with 2 and says what to pass', async (_, store, problem, next) => {
    const { code, stderr } = await runCli(['list', '--store', store], { cwd: opened.directory });
    expect(code).toBe(2);
    expect(stderr).toContain(problem);
    expect(stderr).toContain(next);
  });

  it.runIf(process.platform !== 'win32')('a device ends with 2', async () => {
    const { code, stderr } = await runCli(['list', '--store', '/dev/null']);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'error: --store is no regular file: "/dev/null".\nUse the path of an SQLite file.\n',
    });
  });

  it('a file of another program ends with 1', async () => {
    const file = join(opened.directory, 'other.db');
    new Database(file).exec('CREATE TABLE notes (note TEXT)').close();
    expect(await runCli(['list', '--store', file])).toMatchObject({ code: 1 });
  });

  it('a file that cannot be read ends with 5 or 1', async () => {
    const file = join(opened.directory, 'text.db');
    writeFileSync(file, 'This is text and no database. '.repeat(100));
    chmodSync(file, 0o600);
    const { code, stdout } = await runCli(['list', '--store', file]);
    expect([1, 5]).toContain(code);
    expect(stdout).toBe('');
  });

  it('a store that another process locks for long ends with 5', { timeout: 20_000 }, async () => {
    const file = join(opened.directory, 'locked.db');
    const db = new Database(file);
    migrate(db, 1);
    db.pragma('locking_mode = EXCLUSIVE');
    db.exec('BEGIN EXCLUSIVE');
    const { code, stderr } = await runCli(['list', '--store', file]);
    db.exec('ROLLBACK');
    db.close();
    expect(code).toBe(5);
    expect(stderr).toContain('perdure doctor');
  });
});

describe('a server that cannot be used', () => {
  it('a server that does not respond ends with 5', async () => {
    const { code, stderr } = await runCli(['list', '--server', 'http://127.0.0.1:9']);
    expect(code).toBe(5);
    expect(stderr).toContain('did not respond');
  });

  it('a wrong or missing token ends with 4 and says how to pass it', async () => {
    const argv = ['list', '--server', opened.url];
    for (const env of [{ PERDURE_TOKEN: 'perdure_wrong' }, {}]) {
      const { code, stderr } = await runCli(argv, { env });
      expect(code).toBe(4);
      expect(stderr).toContain(
        'Set PERDURE_TOKEN to a token of this server, or pass --token-file.',
      );
    }
  });

  it('a token without the role ends with 4', async () => {
    const env = { PERDURE_TOKEN: opened.tokens.read };
    const { code, stderr } = await runCli(['pause', 'hello-1', '--server', opened.url], { env });
    expect(code).toBe(4);
    expect(stderr).toContain('perdure token create');
  });

  it('a token file that is missing or empty ends with 2', async () => {
    const argv = ['list', '--server', opened.url, '--token-file'];
    expect(await runCli([...argv, '/nonexistent/token'])).toMatchObject({ code: 2 });
    const empty = join(opened.directory, 'empty.token');
    writeFileSync(empty, '\n');
    expect(await runCli([...argv, empty])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is empty'),
    });
  });

  it('a token is not sent to another host without TLS', async () => {
    const env = { PERDURE_TOKEN: 'perdure_secret' };
    const { code, stderr } = await runCli(['list', '--server', 'http://192.0.2.1'], { env });
    expect(code).toBe(2);
    expect(stderr).toContain('unencrypted');
    expect(stderr).not.toContain('perdure_secret');
  });

  it('a server of another version gives a warning, or its version in the error', async () => {
    const me = { name: null, role: 'admin', server: { version: '9.1.0' } };
    const lists = await startServer((path) => ({
      body: path.startsWith('/v1/me') ? me : { items: [] },
    }));
    const works = await runCli(['list', '--server', lists]);
    expect(works.code).toBe(0);
    expect(works.stderr).toContain('The server runs Perdure 9.1.0');
    const changed = await startServer((path) => ({
      body: path.startsWith('/v1/me') ? me : { entries: [] },
    }));
    const fails = await runCli(['list', '--server', changed]);
    expect(fails.code).toBe(5);
    expect(fails.stderr).toContain('npx perdure@9.1.0');
    // One document, with the warning.
    const { stderr } = await runCli(['list', '--server', changed, '--json']);
    const error = { exitCode: 5, next: expect.stringContaining('npx perdure@9.1.0') };
    expect(JSON.parse(stderr)).toMatchObject({ error });
    expect(await runCli(['list', '--server', lists, '--json'])).toMatchObject({ stderr: '' });
  });

  it('a server that is not Perdure ends with 5', async () => {
    const url = await startServer(() => ({ status: 404, body: 'nothing' }));
    const { code, stderr } = await runCli(['list', '--server', url]);
    expect(code).toBe(5);
    expect(stderr).toContain('not from a Perdure server');
  });
});

describe('exit codes of errors', () => {
  it.each<[ErrorCode, number]>([
    ['INTERNAL', 1],
    ['INVALID_INPUT', 2],
    ['INSTANCE_NOT_FOUND', 3],
    ['INSTANCE_STILL_RUNNING', 4],
    ['PROVIDER', 5],
    ['TIMEOUT', 6],
    ['INSTANCE_FAILED', 7],
  ])('%s is %i', (code, exitCode) => {
    expect(reportOf(new PerdureError(code, 'text'))).toMatchObject({ code, exitCode });
  });
});

describe('PostgreSQL', () => {
  it('runs commands on a store and over its server, with a schema', async () => {
    await using postgres = await openCliStore('postgres');
    for (const kind of ['store', 'server'] as const) {
      const cli = cliOf(postgres, kind);
      const env = { PERDURE_STORE: '' };
      const id = `pg-${kind}`;
      expect(await cli.run(['start', 'hello', '5', '--id', id, '-w'], { env })).toMatchObject({
        code: 0,
        stdout: '5\n',
      });
      await postgres.perdure.client.start('waiting', undefined, { id: `${id}-2` });
      expect(await cli.run(['cancel', '--id-prefix', id, '--yes'])).toMatchObject({ code: 0 });
      await cli.run(['watch', `${id}-2`]);
      expect((await cli.run(['why', `${id}-2`])).stdout).toContain('canceled');
      expect((await cli.run(['list', '--status', 'canceled'])).stdout).toContain(`${id}-2`);
      expect((await cli.run(['history', id])).stdout).toContain('executionCompleted');
      expect((await cli.run(['delete', id, '--yes'])).code).toBe(0);
    }
    const { password } = new URL(postgres.store);
    for (const store of [['--store', postgres.store], [`--store=${postgres.store}`]]) {
      // The command that continues an interrupted operation.
      await postgres.perdure.client.start('unregistered', undefined);
      const argv = ['cancel', '--name', 'unregistered', '--yes', ...store];
      const { code, stderr } = await runCli(argv, { signal: AbortSignal.abort() });
      expect(code).toBe(130);
      expect(stderr).toMatch(
        /^Set PERDURE_STORE to the URL of the option --store first\. Continue with: perdure cancel .*--store[ =]"\$PERDURE_STORE" --cursor/m,
      );
      expect(password).not.toBe('');
      expect(stderr).not.toContain(password);
    }
    const argv = ['list', '--store', postgres.store, '--schema', 'other'];
    const missing = await runCli(argv);
    expect(missing.code).toBe(4);
    expect(missing.stderr).toContain('perdure migrate');
  });
});

it('doctor does not suggest to change the mode of a directory', async () => {
  const { code, stdout, stderr } = await runCli(['doctor', '--store', folder('no-store')]);
  expect(code).toBe(2);
  expect(stderr).toContain('is a directory');
  expect(stdout + stderr).not.toContain('chmod');
});

it('an id that begins with a dash and has an h is no request for help', async () => {
  const { code, stdout, stderr } = await cliOf(opened, 'store').run(['cancel', '-dash']);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain('Write -- before an argument that begins with -.');
});
