import { join } from 'node:path';
import { spawn } from '@lydell/node-pty';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { failing, openCliStore, waiting, type CliStore } from './helpers/cli-store.ts';

const main = join(import.meta.dirname, '../../src/cli/main.ts');
let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
  const { client } = opened.perdure;
  await (await client.start(failing, undefined, { id: 'failing-1' })).result().catch(() => null);
  await Promise.all(
    Array.from({ length: 120 }, (_, index) =>
      client.start(waiting, undefined, { id: `waiting-instance-with-a-long-name-${index}` }),
    ),
  );
});

afterAll(() => opened[Symbol.asyncDispose]());

/** Runs the program in a terminal. Types each answer when its question appears. */
function inTerminal(
  argv: readonly string[],
  {
    cols = 100,
    env = {},
    answers = [],
  }: {
    readonly cols?: number;
    readonly env?: Readonly<Record<string, string>>;
    readonly answers?: readonly (readonly [question: string, answer: string])[];
  } = {},
): Promise<{ readonly code: number; readonly screen: string }> {
  const terminal = spawn(process.execPath, [main, ...argv], {
    cols,
    rows: 30,
    cwd: opened.directory,
    env: { PERDURE_STORE: opened.store, TERM: 'xterm-256color', ...env },
  });
  let screen = '';
  const open = [...answers];
  terminal.onData((data) => {
    screen += data;
    const [next] = open;
    if (next !== undefined && screen.includes(next[0])) {
      open.shift();
      terminal.write(next[1]);
    }
  });
  return new Promise((resolve) => {
    terminal.onExit(({ exitCode }) => resolve({ code: exitCode, screen }));
  });
}

// oxlint-disable-next-line eslint/no-control-regex -- removes the escapes of styles
const withoutStyles = (text: string) => text.replaceAll(/\u001B\[[\d;]*m/g, '');

describe('in a terminal', () => {
  it('list has colours, and fits 40 columns', async () => {
    const { code, screen } = await inTerminal(['list', '--status', 'failed'], { cols: 40 });
    expect(code).toBe(0);
    expect(screen).toContain('\u001B[31mfailed\u001B[39m');
    const lines = withoutStyles(screen).trimEnd().split('\r\n');
    expect(lines.filter((line) => line.length > 40)).toEqual([]);
    const narrow = await inTerminal(['list', '-n', '3'], { cols: 40, env: { NO_COLOR: '1' } });
    expect(narrow.screen).not.toContain('\u001B[');
    const [, first = ''] = narrow.screen.split('\r\n');
    expect(first.length).toBeLessThanOrEqual(40);
    expect(first).toMatch(/^waiting-instance-with.*… +running$/);
  });

  it('a bulk cancel asks for the number, draws a bar, and removes it', async () => {
    const { code, screen } = await inTerminal(['cancel', '--name', 'waiting'], {
      answers: [['Type the number 120', '120\r']],
    });
    expect(code).toBe(0);
    expect(withoutStyles(screen)).toMatch(/canceling \[█+░*\] [\d,]+ of 120/);
    expect(screen.trimEnd()).toMatch(/120 instances canceled or canceling\.$/);
  });

  it('Ctrl-C at a question ends with 130 and changes nothing', async () => {
    const { code, screen } = await inTerminal(['delete', 'failing-1'], {
      answers: [['Type yes', '\u0003']],
    });
    expect(code).toBe(130);
    expect(screen).toContain('Nothing was changed.');
    expect(await opened.perdure.client.get('failing-1')).toBeDefined();
  });

  it('why shows the explanation with the next command of show', async () => {
    const { screen } = await inTerminal(['why', 'failing-1']);
    expect(withoutStyles(screen)).toMatch(/failing-1 {2}failing v1 {2}failed after/);
  });
});
