import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createToken } from 'perdure/server';
import { hello, openCliStore } from './helpers/cli-store.ts';
import { runCli, type CliResult, type Surroundings } from './helpers/run-cli.ts';
import { emptyFolder } from './processes/cli-process.ts';

/** Root may read every file, so another user runs the command. */
const isRoot = process.getuid?.() === 0;
const nobody = 65_534;

async function asUser<T>(work: () => Promise<T>): Promise<T> {
  if (isRoot) process.seteuid?.(nobody);
  try {
    return await work();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}

async function runAsUser(argv: readonly string[], surroundings: Surroundings): Promise<CliResult> {
  // Loads the modules of the command first: the other user may not read them.
  await runCli(argv, surroundings);
  return asUser(() => runCli(argv, surroundings));
}

/** A folder that every user can write to. */
function openFolder(): string {
  const folder = emptyFolder();
  chmodSync(folder, 0o777);
  return folder;
}

describe.runIf(process.platform !== 'win32')('a file that this user cannot read', () => {
  function secret(folder: string, name: string, text: string): string {
    writeFileSync(join(folder, name), text);
    chmodSync(join(folder, name), 0);
    return name;
  }

  it('a token file ends with 2 and names the file', async () => {
    const cwd = openFolder();
    const file = secret(cwd, 'a.token', 'perdure_x');
    const argv = ['list', '--server', 'http://127.0.0.1:9', '--token-file', file];
    const { code, stderr } = await runAsUser(argv, { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain(
      `Cannot read the token file ${JSON.stringify(join(cwd, file))} (EACCES).`,
    );
  });

  it('a configuration ends with 2 and names the file', async () => {
    const cwd = openFolder();
    secret(cwd, 'perdure.config.json', '{}');
    const { code, stderr } = await runAsUser(['list'], { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain('perdure.config.json" (EACCES).');
  });

  it('an input file ends with 2 and says why', async () => {
    const cwd = openFolder();
    secret(cwd, 'input.json', '1');
    const argv = ['start', 'hello', '@input.json', '--store', 'app.db'];
    const { code, stderr } = await runAsUser(argv, { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain('input.json" for <input>: permission denied.');
  });

  it('a store in a directory without access ends with 5', async () => {
    await using opened = await openCliStore();
    chmodSync(opened.directory, 0);
    const { code, stderr } = await runAsUser(['list', '--store', opened.store], {});
    chmodSync(opened.directory, 0o700);
    expect(code).toBe(5);
    expect(stderr).toContain('perdure doctor --store');
    expect(stderr).not.toContain('    at ');
  });

  it('doctor reports a store in a directory without access', async () => {
    await using opened = await openCliStore();
    chmodSync(opened.directory, 0);
    const argv = ['doctor', '--store', opened.store, '--json'];
    const { code, stdout } = await runAsUser(argv, {});
    chmodSync(opened.directory, 0o700);
    expect(code).toBe(8);
    expect(JSON.parse(stdout)).toMatchObject({
      findings: [{ id: 'store-unreachable', sentence: expect.stringContaining('EACCES') }],
    });
  });

  it('a directory without access for init and token create ends with 2', async () => {
    const cwd = emptyFolder();
    // Loads the modules.
    await runCli(['init', 'first'], { cwd });
    await runCli(['token', 'create', 'ci'], { cwd });
    chmodSync(cwd, 0o555);
    const [init, token] = await asUser(async () => [
      await runCli(['init', 'project'], { cwd }),
      await runCli(['token', 'create', 'ci', '--out', 'ci.token'], { cwd }),
    ]);
    chmodSync(cwd, 0o755);
    const project = JSON.stringify(join(cwd, 'project'));
    expect(init).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`Cannot create the directory ${project} (EACCES).`),
    });
    expect(token).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('(EACCES)'),
    });
  });
});

describe('a directory in the place of a file', () => {
  it('ends with 2 as token file, as configuration and as --out', async () => {
    await using opened = await openCliStore();
    const { directory: cwd, store, perdure } = opened;
    await (await perdure.client.start(hello, 1, { id: 'done' })).result();
    mkdirSync(join(cwd, 'folder'));
    const token = ['list', '--server', 'http://127.0.0.1:9', '--token-file', 'folder'];
    expect(await runCli(token, { cwd })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('(EISDIR)'),
    });
    const out = ['export', 'done', '--store', store, '--out', 'folder'];
    expect(await runCli(out, { cwd })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Check the path of --out.'),
    });
    mkdirSync(join(cwd, 'perdure.config.json'));
    expect(await runCli(['list'], { cwd })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('perdure.config.json" (EISDIR).'),
    });
  });
});

it('a byte order mark before the JSON of an input, a configuration and tokens is skipped', async () => {
  await using opened = await openCliStore();
  const { directory: cwd, store } = opened;
  const mark = '\uFEFF';
  writeFileSync(join(cwd, 'input.json'), `${mark}{"a": 1}`);
  const config = JSON.stringify({ profiles: { default: { store } } });
  writeFileSync(join(cwd, 'perdure.config.json'), `${mark}${config}`);
  const argv = ['start', 'hello', '@input.json', '--id', 'marked', '--wait'];
  expect(await runCli(argv, { cwd })).toMatchObject({ code: 0, stdout: '{"a":1}\n' });
  // The tokens are read before the port is found taken.
  const { sha256 } = createToken();
  const tokens = JSON.stringify([{ name: 'ci', role: 'read', sha256 }]);
  writeFileSync(join(cwd, 'tokens.json'), `${mark}${tokens}`);
  const { port } = new URL(opened.url);
  const served = await runCli(['serve', '--port', port, '--tokens', 'tokens.json'], { cwd });
  expect(served).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use') });
});

describe('serve --tokens', () => {
  it.each([
    ['a missing file', 'missing.json', 'ENOENT'],
    ['a directory', '.', 'EISDIR'],
    ['invalid JSON', 'wrong.json', 'JSON'],
  ])('%s ends with 2, and no server starts', async (_, file, reason) => {
    const cwd = emptyFolder();
    writeFileSync(join(cwd, 'wrong.json'), '{');
    const argv = ['serve', '--store', 'app.db', '--port', '0', '--tokens', file];
    const { code, stdout, stderr } = await runCli(argv, { cwd });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`Cannot read the tokens in ${JSON.stringify(join(cwd, file))}`);
    expect(stderr).toContain(reason);
    expect(stderr).toContain('perdure token create');
  });
});
