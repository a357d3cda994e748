import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCli } from '../helpers/run-cli.ts';
import { parseJson } from '../doctor/parse-json.ts';
import { emptyFolder, installPackage, RunningProcess, runProgram } from './cli-process.ts';

/** Creates a project in an empty folder, with the package of this checkout. */
async function project(template: string): Promise<string> {
  const folder = emptyFolder();
  const result = await runCli(['init', '--template', template], { cwd: folder });
  expect(result).toMatchObject({ code: 0 });
  installPackage(folder);
  return folder;
}

/** Runs the script `start` of a project. */
function start(folder: string, env: Readonly<Record<string, string>> = {}): RunningProcess {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly scripts: { readonly start: string };
  };
  expect(manifest.scripts.start).toBe('node src/main.ts');
  return new RunningProcess(['src/main.ts'], { cwd: folder, env });
}

describe('perdure init', () => {
  it.each([
    ['hello', 'Hello, World!\n'],
    ['agent', 'Mail me the weather. Done: mail sent (sunny in Oslo).\n'],
    [
      'flow',
      'Reykjavik is the warmest, with 9 degrees\nmeasure: completed\nwarmest: completed\npublish: completed\n',
    ],
  ])('template %s runs and prints its result', async (template, output) => {
    const { code, stdout, stderr } = await start(await project(template)).finished;
    expect(stderr).toBe('');
    expect(stdout).toBe(output);
    expect(code).toBe(0);
  });

  it('template service takes orders over HTTP and stops on SIGTERM', async () => {
    const service = start(await project('service'), { PORT: '0' });
    const [url] = await service.until(/http:\S+/);
    const post = async (path: string, body: unknown): Promise<{ readonly id: string }> => {
      const response = await fetch(url + path, { method: 'POST', body: JSON.stringify(body) });
      expect(response.status).toBe(202);
      return (await response.json()) as { readonly id: string };
    };
    const { id } = await post('', { customer: 'ada', euros: 12 });
    const read = async () => (await fetch(`${url}/${id}`)).json();
    expect(await read()).toMatchObject({ id });
    await post(`/${id}/paid`, { reference: 'p-1' });
    await expect.poll(read).toEqual({
      id,
      status: 'completed',
      output: { reference: 'p-1', shipment: 'shipped the reservation of ada' },
    });
    expect((await fetch(`${url}/none`)).status).toBe(404);
    expect((await fetch(url, { method: 'POST', body: 'no json' })).status).toBe(400);
    service.child.kill('SIGTERM');
    expect((await service.finished).code).toBe(0);
  });

  it('names the project after its directory, and its files list three commands', async () => {
    const cwd = emptyFolder();
    const result = await runCli(['init', 'My Shop', '--json'], { cwd });
    const directory = join(cwd, 'My Shop');
    expect(parseJson('init', result.stdout)).toEqual({
      directory,
      template: 'hello',
      files: [
        'README.md',
        '.gitignore',
        'package.json',
        'src/main.ts',
        'src/worker.ts',
        'tsconfig.json',
      ],
    });
    const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as object;
    expect(manifest).toMatchObject({
      name: 'my-shop',
      dependencies: { perdure: expect.stringMatching(/^\^\d+\.\d+\.\d+/) },
    });
    expect(readFileSync(join(directory, 'README.md'), 'utf8')).toMatch(
      /^# my-shop\n[^]*npm install\nnpm start .*\nnpm run dev/,
    );
  });

  it('overwrites no file, and writes nothing beside it', async () => {
    const cwd = emptyFolder();
    writeFileSync(join(cwd, 'tsconfig.json'), '{}');
    const result = await runCli(['init'], { cwd });
    expect(result.code).toBe(4);
    expect(result.stderr).toContain('already has tsconfig.json. Nothing was written.');
    expect(readdirSync(cwd)).toEqual(['tsconfig.json']);
    expect(readFileSync(join(cwd, 'tsconfig.json'), 'utf8')).toBe('{}');
  });

  it('rejects a path that is or is below a file, and writes nothing', async () => {
    const cwd = emptyFolder();
    writeFileSync(join(cwd, 'notes'), '');
    // A template has files in src/.
    writeFileSync(join(cwd, 'src'), '');
    for (const [path, file] of [
      ['notes', 'notes'],
      ['notes/project', 'notes'],
      ['.', 'src'],
    ] as const) {
      const { code, stdout, stderr } = await runCli(['init', path], { cwd });
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(
        `${JSON.stringify(join(cwd, file))} is not a directory. Nothing was written.`,
      );
    }
    expect(readdirSync(cwd)).toEqual(['notes', 'src']);
  });

  it('rejects an empty path', async () => {
    const cwd = emptyFolder();
    const { code, stderr } = await runCli(['init', ''], { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain('<directory> is empty.');
    expect(readdirSync(cwd)).toEqual([]);
  });

  it('creates the parents of a directory', async () => {
    const cwd = emptyFolder();
    expect(await runCli(['init', 'a/b/c'], { cwd })).toMatchObject({ code: 0 });
    expect(readdirSync(join(cwd, 'a/b/c'))).toContain('package.json');
  });

  it.runIf(process.platform === 'linux')(
    'ends with 2 in a file system without directories of users',
    async () => {
      const cwd = emptyFolder();
      expect(await runProgram(['init', '/proc/project'], { cwd })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('Cannot create the directory "/proc/project" (ENOENT).'),
      });
    },
  );

  it('rejects an unknown template with the near miss', async () => {
    const result = await runCli(['init', '--template', 'agnet'], { cwd: emptyFolder() });
    expect(result.code).toBe(2);
    expect(result.stderr).toContain('Did you mean agent?');
  });
});
