import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCliStore, type CliStore } from '../helpers/cli-store.ts';
import { callsOf, type Call } from '../helpers/every-call.ts';
import { runProgram } from './cli-process.ts';
import { PtyScreen } from './pty-screen.ts';

const cols = 40;
/** Commands that print a table or fields. The others print ids and outcomes, which must not be cut. */
const fitted = new Set([
  'audit',
  'doctor',
  'flows',
  'history',
  'limits list',
  'limits show',
  'list',
  'queues',
  'retention',
  'schedules list',
  'schedules show',
  'sessions list',
  'show',
  'state',
  'tasks',
  'top',
  'tree',
  'watch',
  'why',
  'workers',
]);
// oxlint-disable-next-line eslint/no-control-regex -- finds styles
const styles = /\u001B\[[\d;]*m/g;
// oxlint-disable-next-line eslint/no-control-regex -- finds the escapes that redraw the line of a progress bar
const redraws = /\r?\u001B\[(?:2?K|\d*G)|\u001B\[\?25[hl]/g;
// oxlint-disable-next-line eslint/no-control-regex -- finds all other escapes
const escapes = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]/;

let opened: CliStore;
beforeAll(async () => {
  opened = await openCliStore();
});
afterAll(() => opened[Symbol.asyncDispose]());

/** Calls a command of the table on the store of the test. */
async function callOf(name: string, form: string): Promise<Required<Pick<Call, 'argv' | 'code'>>> {
  const key = `${name.replace(' ', '-')}-${form}`;
  const { argv, before, code = 0, local } = callsOf(key, opened.directory)[name] as Call;
  await before?.(opened, key);
  return { argv: local === true ? argv : [...argv, '--store', opened.store], code };
}

describe.each(Object.keys(callsOf('', '/')))('the program perdure %s', (name) => {
  it('at a terminal has no escapes but styles and progress bars, and fits 40 columns', async () => {
    const { argv, code } = await callOf(name, 'pty');
    const screen = new PtyScreen(argv, { cwd: opened.directory, cols });
    const found = await screen.exited;
    const text = screen.written.replaceAll(styles, '');
    expect({ argv, found, text }).toMatchObject({ found: code });
    expect(text).not.toBe('');
    expect(text.replaceAll(redraws, '')).not.toMatch(escapes);
    if (!fitted.has(name)) return;
    // Sentences are left to the terminal, so that the commands in them can be copied.
    const lines = text.split(/\r?\n|\r/).filter((line) => !/[.:]$/.test(line));
    expect(lines.filter((line) => line.length > cols)).toEqual([]);
  });

  it('in a pipe has no escapes', async () => {
    const { argv, code } = await callOf(name, 'pipe');
    const env = { NO_COLOR: '', TERM: 'xterm-256color' };
    const { code: found, stdout, stderr } = await runProgram(argv, { cwd: opened.directory, env });
    expect({ argv, found, stderr }).toMatchObject({ found: code });
    expect(`${stdout}${stderr}`).not.toMatch(escapes);
  });
});
