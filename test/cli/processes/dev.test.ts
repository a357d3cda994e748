import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, silentLogger } from 'perdure';
import { root } from '../../e2e/run-program.ts';
import { parseJson } from '../doctor/parse-json.ts';
import { emptyFolder, installPackage, runProgram, startProgram } from './cli-process.ts';
import { PtyScreen } from './pty-screen.ts';

/** A project with two source files, and the store that `dev` creates. */
function project(): { readonly cwd: string; readonly worker: string; readonly greeting: string } {
  const cwd = emptyFolder();
  cpSync(join(root, 'templates', 'hello'), cwd, { recursive: true });
  installPackage(cwd);
  const worker = join(cwd, 'src', 'worker.ts');
  const greeting = join(cwd, 'src', 'greeting.ts');
  writeFileSync(greeting, "export const greeting = 'Hello';\n");
  writeFileSync(
    worker,
    `import { activity, orchestration } from 'perdure';
import { greeting } from './greeting.ts';
export const greet = activity('greet', async (_ctx, name: string) => \`\${greeting}, \${name}!\`);
export const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
`,
  );
  return { cwd, worker, greeting };
}

async function openClient(cwd: string): Promise<Perdure['client']> {
  const perdure = await Perdure.open(join(cwd, 'perdure.db'), { logger: silentLogger });
  onTestFinished(() => perdure.close());
  return perdure.client;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('perdure dev', () => {
  it('runs a worker, restarts it on change, waits after an error, and stops on Ctrl-C', async () => {
    const { cwd, worker, greeting } = project();
    const dev = startProgram(['dev', '--port', '0'], { cwd });
    const pidOf = async (): Promise<number> =>
      Number((await dev.until(/worker +src\/worker\.ts .*\(pid (\d+), restarts on change\)\n/))[1]);
    const first = await pidOf();
    expect(dev.stdout).toMatch(/^store +perdure\.db \(SQLite, created\)\ndashboard +http:/);
    expect(dev.stdout).toContain('1 orchestration, 1 activity');
    const [, url = ''] = await dev.until(/dashboard +(http:\S+)/);
    const page = await fetch(url, { headers: { accept: 'text/html' } });
    expect(page.headers.get('content-type')).toContain('text/html');
    const client = await openClient(cwd);
    const hello = async (name: string) => (await client.start('hello', name)).result();
    expect(await hello('Ada')).toBe('Hello, Ada!');

    // An imported file changes.
    dev.reset();
    writeFileSync(greeting, "export const greeting = 'Good morning';\n");
    await dev.until(/src\/greeting\.ts changed, restarting the worker/, 'stderr');
    const second = await pidOf();
    expect(isAlive(first)).toBe(false);
    expect(await hello('Ada')).toBe('Good morning, Ada!');

    // An error is shown, and the next change starts the worker.
    dev.reset();
    const source = readFileSync(worker, 'utf8');
    writeFileSync(worker, source.replace('./greeting.ts', './missing.ts'));
    await dev.until(
      /src\/worker\.ts cannot run\.[^]*missing\.ts[^]*waiting for a change/,
      'stderr',
    );
    expect(isAlive(second)).toBe(false);
    writeFileSync(worker, 'export const nothing = 1;\n');
    await dev.until(/exports no orchestration, activity, task or flow/, 'stderr');
    writeFileSync(worker, source);
    const third = await pidOf();

    // A killed worker is restarted. It registers itself after its start.
    const pids = async () => (await client.workers()).map(({ pid }) => pid);
    await expect.poll(pids).toContain(third);
    dev.reset();
    process.kill(third, 'SIGKILL');
    await dev.until(/the worker ended \(SIGKILL\), restarting it/, 'stderr');
    const fourth = await pidOf();
    expect(await hello('Bob')).toBe('Good morning, Bob!');

    dev.child.kill('SIGINT');
    const { code, stderr } = await dev.finished;
    expect(code).toBe(0);
    expect(stderr).toContain('Stopped.');
    expect(isAlive(fourth)).toBe(false);
    // The killed one is listed as lost; the others have left.
    const workers = await client.workers();
    expect(workers.map(({ pid, status }) => [pid, status])).toEqual([[third, 'stale']]);
  });

  it('stops after Ctrl-C at a terminal, which reaches the worker too', async () => {
    const { cwd } = project();
    const dev = new PtyScreen(['dev', '--port', '0', '--no-dashboard'], { cwd });
    await dev.until(/api +http:[^]*restarts on change/);
    dev.pty.write('\u0003');
    expect(await dev.exited).toBe(0);
    await dev.until(/Stopped\./);
    expect(await (await openClient(cwd)).workers()).toEqual([]);
  });

  it('--json prints the store, the URL and the file', async () => {
    const { cwd, worker } = project();
    const dev = startProgram(['dev', '--port', '0', '--json'], { cwd });
    const [line] = await dev.until(/^\{.*\}\n/);
    expect(parseJson('dev', line)).toMatchObject({ file: worker });
    dev.child.kill('SIGINT');
    expect((await dev.finished).code).toBe(0);
  });

  it('takes the next free port if 7373 is taken', async () => {
    const { cwd } = project();
    const other = createServer();
    // Another process may have taken it already.
    await new Promise<void>((resolve) => {
      other.once('error', () => resolve());
      other.listen(7373, '127.0.0.1', resolve);
    });
    onTestFinished(() => void other.close());
    const dev = startProgram(['dev', '--json'], { cwd });
    const [line] = await dev.until(/^\{.*\}\n/);
    const { url } = parseJson('dev', line) as { readonly url: string };
    expect(Number(new URL(url).port)).toBeGreaterThan(7373);
    expect(Number(new URL(url).port)).toBeLessThan(7383);
    expect((await fetch(`${url}/v1/me`)).status).toBe(200);
    dev.child.kill('SIGINT');
    expect((await dev.finished).code).toBe(0);
  });

  it('rejects a file that does not exist, and a folder without a default file', async () => {
    const cwd = emptyFolder();
    const [missing, none] = await Promise.all([
      runProgram(['dev', 'wroker.ts'], { cwd }),
      runProgram(['dev'], { cwd }),
    ]);
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('"wroker.ts"') });
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('perdure init') });
  });
});
