import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, silentLogger, task } from 'perdure';
import { root } from '../../e2e/run-program.ts';
import { createDatabase } from '../../postgres/helpers/server.ts';
import { runCli } from '../helpers/run-cli.ts';
import { parseJson } from '../doctor/parse-json.ts';
import { emptyFolder } from './cli-process.ts';
import { PtyScreen } from './pty-screen.ts';

const double = task('double', async (_ctx, n: number) => 2 * n);

/** A store with a worker, five completed runs and one that no worker can run. */
async function storeWithWork(store: string): Promise<Perdure> {
  const perdure = await Perdure.open(store, { logger: silentLogger });
  onTestFinished(() => perdure.close());
  await perdure.startWorker({ tasks: [double], name: 'w-1' });
  const { client } = perdure;
  const runs = await client.runTasks([1, 2, 3, 4, 5].map((input) => ({ task: double, input })));
  await Promise.all(runs.map((run) => run.result()));
  await client.runTask('fax', 1);
  return perdure;
}

const escape = String.fromCodePoint(27);

describe.each(['SQLite', 'PostgreSQL'] as const)('perdure top on %s', (kind) => {
  it('prints one snapshot in a pipe, without escapes, and as JSON', async () => {
    const database = kind === 'SQLite' ? undefined : await createDatabase();
    if (database !== undefined) onTestFinished(() => database.drop());
    const store = database?.url ?? join(emptyFolder(), 'app.db');
    const perdure = await storeWithWork(store);
    const env = { PERDURE_STORE: store };
    const piped = await runCli(['top'], { env });
    expect(piped).toMatchObject({ code: 0, stderr: '' });
    expect(piped.stdout).toContain('5 completed');
    expect(piped.stdout).toMatch(/^ended per minute {2}[▁-█]{30}/m);
    expect(piped.stdout).toMatch(/^NAME +KIND +READY/m);
    expect(piped.stdout).toMatch(/^w-1 +live +\d+\/100/m);
    expect(piped.stdout).not.toContain(escape);
    expect(piped.stdout).not.toContain('only-for-tests');
    const json = await runCli(['top', '--json'], { env });
    expect(parseJson('top', json.stdout)).toMatchObject({
      instances: { completed: 5, pending: 1 },
      workers: [{ name: 'w-1', status: 'live' }],
      queues: [
        { name: 'fax', ready: 1, workers: 0 },
        { name: 'double', workers: 1 },
      ],
      minutes: { length: 30 },
    });
    await perdure.close();
    const after = await runCli(['top', '--once'], { env, columns: 40 });
    expect(after.stdout).toContain('Needs attention (1)\nproblem  1 instance has not ended');
    for (const line of after.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(40);
  });
});

describe('perdure top at a terminal', () => {
  const args = ['top', '--store', 'app.db', '--interval', '250ms'];

  async function open(size: { readonly cols?: number; readonly rows?: number } = {}) {
    const cwd = emptyFolder();
    const perdure = await storeWithWork(join(cwd, 'app.db'));
    const screen = new PtyScreen(args, { cwd, ...size });
    await screen.until(/q quit/);
    expect(screen.isAlternate).toBe(true);
    return { perdure, screen, client: perdure.client };
  }

  async function expectRestored(screen: PtyScreen): Promise<void> {
    await expect.poll(() => screen.isAlternate).toBe(false);
    expect(screen.showsCursor).toBe(true);
  }

  it('updates, pauses with p, scrolls with the arrows, and quits with q', async () => {
    const { screen, client } = await open({ rows: 12 });
    await screen.until(/5 completed/);
    await (await client.runTask(double, 6)).result();
    await screen.until(/6 completed/);
    screen.pty.write('p');
    await screen.until(/p resume .*paused/);
    await (await client.runTask(double, 7)).result();
    const [header, first] = screen.lines();
    expect(first).toContain('6 completed');
    screen.pty.write(`${escape}[B${escape}[B`);
    await expect.poll(() => screen.lines()[1]).not.toBe(first);
    expect(screen.lines()[0]).toBe(header);
    screen.pty.write(`${escape}[A${escape}[A`);
    await expect.poll(() => screen.lines()[1]).toBe(first);
    screen.pty.write('p');
    await screen.until(/7 completed/);
    screen.pty.write('q');
    expect(await screen.exited).toBe(0);
    await expectRestored(screen);
  });

  it('fits a narrow terminal and a resize, and restores the terminal after Ctrl-C', async () => {
    const { screen } = await open({ cols: 44, rows: 20 });
    await screen.until(/w-1 +live/);
    // A line that is too long would continue on the next row.
    expect(screen.lines()[0]).toMatch(/^perdure top {2}app\.db/);
    expect(screen.lines().at(-1)).toMatch(/^q quit/);
    screen.resize(30, 10);
    await expect
      .poll(() => `${screen.lines()[0]}\n${screen.lines().at(-1)}`)
      .toMatch(/^perdure top[^\n]*\nq quit/);
    screen.pty.write('\u0003');
    expect(await screen.exited).toBe(130);
    await expectRestored(screen);
  });

  it('restores the terminal after an uncaught error, which is printed below', async () => {
    const source = JSON.stringify(join(root, 'src', 'cli', 'top', 'screen.ts'));
    const code = `import { Screen } from ${source};
      const output = { columns: 80, rows: 24, write: (text) => process.stdout.write(text), style: (_, text) => text };
      new Screen(output, process.stdin, () => undefined).draw({ header: 'top', lines: [], footer: '', offset: 0 });
      setTimeout(() => { throw new Error('broken screen'); }, 300);`;
    const flags = ['--input-type=module', '--eval', code];
    const screen = new PtyScreen(flags, { cwd: emptyFolder(), program: [] });
    await expect.poll(() => screen.isAlternate).toBe(true);
    expect(await screen.exited).toBe(1);
    await expectRestored(screen);
    await screen.until(/broken screen/);
  });

  it('restores the terminal after SIGTERM', async () => {
    const { screen } = await open();
    screen.pty.kill('SIGTERM');
    expect(await screen.exited).toBe(130);
    await expectRestored(screen);
  });
});
