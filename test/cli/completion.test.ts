import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from '@lydell/node-pty';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { optionsOf } from '../../src/cli/shared-options.ts';
import { runCli } from './helpers/run-cli.ts';

/** What each line completes to, in every shell. */
const completions: readonly (readonly [words: readonly string[], completed: readonly string[]])[] =
  [
    [['wh'], ['why']],
    [['schedules', 'tr'], ['trigger']],
    [['list', '--stat'], ['--status']],
    [['list', '--status', 'fai'], ['failed']],
    [['schedules', 'trigger', '--ke'], ['--key']],
    [['retention', 'run', '--dr'], ['--dry-run']],
    [['retention', '--js'], ['--json']],
    [['completion', 'po'], ['powershell']],
    // Options before the command, and their values, are not the command.
    [['--json', 'wh'], ['why']],
    [['--store', 'x.db', 'wh'], ['why']],
    [['-n', '3', 'wh'], ['why']],
    [['--js'], ['--json']],
    [['--stor'], ['--store']],
    [['--store', 'x.db', '--js'], ['--json']],
    // The word after it is a file, not a command.
    [['--store', 'work'], ['worker.ts']],
    [['help', 'sched'], ['schedules']],
    // Options of `list` are not those of `schedules list`.
    [['schedules', 'list', '--stat'], []],
    [['show', 'list', '--stat'], []],
  ];

let directory: string;
const fileOf = (shell: string) =>
  join(directory, `perdure.${shell === 'powershell' ? 'ps1' : shell}`);

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'perdure-completion-'));
  for (const shell of ['bash', 'zsh', 'fish', 'powershell']) {
    const { stdout } = await runCli(['completion', shell]);
    writeFileSync(fileOf(shell), stdout);
  }
  writeFileSync(join(directory, 'worker.ts'), '');
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const has = (shell: string): boolean => spawnSync(shell, ['-c', 'exit 0']).status === 0;

function run(shell: string, args: readonly string[]): readonly string[] {
  const text = execFileSync(shell, args, { cwd: directory, encoding: 'utf8' }).trim();
  return text === '' ? [] : text.split('\n');
}

describe('the completion script', () => {
  it('of bash completes commands, options and values', () => {
    for (const [words, completed] of completions) {
      const line = `source ${fileOf('bash')}
COMP_WORDS=(perdure ${words.map((word) => `'${word}'`).join(' ')})
COMP_CWORD=${words.length}
_perdure
printf '%s\n' "\${COMPREPLY[@]}"`;
      expect([words, run('bash', ['-c', line])]).toEqual([words, completed]);
    }
  });

  it('of bash completes a value after an equals sign, which splits the word', () => {
    for (const [words, completed] of [
      ['list --status = fai', ['failed']],
      ['token create --role =', ['read', 'operate', 'admin']],
    ] as const) {
      const line = `source ${fileOf('bash')}
COMP_WORDS=(perdure ${words}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _perdure
printf '%s\\n' "\${COMPREPLY[@]}"`;
      expect([words, run('bash', ['-c', line])]).toEqual([words, completed]);
    }
  });

  it.skipIf(!has('fish'))('of fish completes commands, options and values (needs fish)', () => {
    for (const [words, completed] of completions) {
      const line = `source ${fileOf('fish')}; complete -C 'perdure ${words.join(' ')}'`;
      const found = run('fish', ['--no-config', '-c', line]).map((one) => one.split('\t')[0]);
      expect([words, found]).toEqual([words, completed]);
    }
    const after = `source ${fileOf('fish')}; complete -C 'perdure list --status=fai'`;
    expect(run('fish', ['--no-config', '-c', after])).toEqual(['--status=failed\tStatus']);
  });

  it.skipIf(!has('zsh'))('of zsh loads without compinit, and from $fpath (needs zsh)', () => {
    const file = fileOf('zsh');
    const load = `source ${file}; print $_comps[perdure]`;
    expect(run('zsh', ['-f', '-c', `ZDOTDIR=${directory}; ${load}`])).toEqual(['_perdure']);
    // As a file in $fpath, the script is the body of the function, which completes at its first call.
    cpSync(file, join(directory, '_perdure'));
    const called = `compdef() { print again }; _arguments() { print options }
words=(perdure -); CURRENT=2; fpath=(${directory}); autoload -U _perdure; _perdure`;
    expect(run('zsh', ['-f', '-c', called])).toEqual(['options']);
  });

  it.skipIf(!has('zsh'))('of zsh completes commands, options and values (needs zsh)', async () => {
    const terminal = spawn('zsh', ['-f', '-i'], {
      cols: 200,
      cwd: directory,
      env: { PATH: process.env['PATH'], HOME: directory, TERM: 'dumb' },
    });
    onTestFinished(() => terminal.kill());
    let screen = '';
    terminal.onData((data) => (screen += data));
    const until = async (pattern: RegExp): Promise<void> => {
      await expect.poll(() => screen).toMatch(pattern);
    };
    // Ctrl-X prints the line as it was completed, and empties it.
    terminal.write(
      [
        `PS1=; autoload -U compinit; compinit -u -D; source ${fileOf('zsh')}; setopt NO_BEEP`,
        String.raw`report() { print -r -- "<$BUFFER>"; BUFFER='' }; zle -N report; bindkey '^X' report`,
        `print rea''dy\r`,
      ].join('; '),
    );
    await until(/\nready/);
    const afterEquals = [['list', '--status=fai'], ['--status=failed']] as const;
    for (const [words, completed] of [...completions, afterEquals]) {
      screen = '';
      const line = ['perdure', ...words];
      terminal.write(`${line.join(' ')}\t\u0018`);
      const expected =
        completed.length === 0 ? line : ['perdure', ...words.slice(0, -1), ...completed];
      await until(/<.*>/);
      // Zsh removes the equals sign if a space follows.
      expect(/<(.*?)=? ?>/.exec(screen)?.[1]).toBe(expected.join(' '));
    }
  });

  // No package of Debian has PowerShell: without it, only the quotes and brackets are compared.
  it('of PowerShell has balanced quotes and brackets', async () => {
    const { stdout } = await runCli(['completion', 'powershell']);
    const code = stdout
      .replaceAll(/^#.*$/gm, '')
      .replaceAll(/'[^'\n]*'/g, '')
      .replaceAll(/"[^"\n]*"/g, '');
    expect(code).not.toMatch(/['"]/);
    const open: string[] = [];
    const pairs: Readonly<Record<string, string>> = { ')': '(', '}': '{', ']': '[' };
    for (const character of code) {
      if ('({['.includes(character)) open.push(character);
      else if (character in pairs) expect(open.pop()).toBe(pairs[character]);
    }
    expect(open).toEqual([]);
  });

  it('of PowerShell has the commands and options of the table', async () => {
    const { stdout } = await runCli(['completion', 'powershell']);
    const [, table = ''] = /\$flags = @\{\n(.*?)\n {2}\}/s.exec(stdout) ?? [];
    const listed = table.split('\n').map((line) => {
      const [, name = '', options = ''] = /^ +'([^']+)' = @\((.*)\)$/.exec(line) ?? [];
      return [name, options.split(', ')];
    });
    const expected = commands.map((command) => [
      command.name,
      expect.arrayContaining(optionsOf(command).map((option) => `'--${option.name}'`)),
    ]);
    expect(listed).toEqual(expected);
  });

  it.skipIf(!has('pwsh'))(
    'of PowerShell completes commands, options and values (needs pwsh)',
    () => {
      for (const [words, completed] of completions) {
        const text = `perdure ${words.join(' ')}`;
        const line = `. ${fileOf('powershell')}; (TabExpansion2 '${text}' ${text.length}).CompletionMatches.CompletionText`;
        const found = run('pwsh', ['-NoProfile', '-Command', line]);
        expect([words, found.map((one) => one.replace(/^\.[/\\]/, ''))]).toEqual([
          words,
          completed,
        ]);
      }
    },
  );
});
