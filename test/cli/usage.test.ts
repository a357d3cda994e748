import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { failedSchema } from '../../src/cli/schemas.ts';
import { runCli } from './helpers/run-cli.ts';
import { expectSchema } from './helpers/targets.ts';

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'perdure-cli-usage-'));
});

afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('help', () => {
  it.each([[], ['--help'], ['-h'], ['help']])('perdure %s lists all commands', async (...argv) => {
    const { code, stdout, stderr } = await runCli(argv);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const { name } of commands) expect(stdout).toContain(`  ${name}`);
    expect(stdout).toContain(commands[0]?.summary);
  });

  it.each([
    ['list', '--help'],
    ['help', 'list'],
    ['list', '-h', '--unknown'],
  ])('perdure %s %s shows the options and examples of a command', async (...argv) => {
    const { code, stdout } = await runCli(argv);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Usage: perdure list \[options\]$/m);
    expect(stdout).toMatch(/^ {2}--status <status> +Status \(can be repeated\)$/m);
    expect(stdout).toMatch(/^ {2}perdure list --status failed/m);
  });

  it('perdure help token lists the commands of a group', async () => {
    expect((await runCli(['help', 'token'])).stdout).toMatch(/^ {2}token create <name> +/m);
  });

  it('help fits a terminal of 40 columns', async () => {
    for (const argv of [['--help'], ['cancel', '--help']]) {
      const { stdout } = await runCli(argv, { columns: 40 });
      // Names of options and examples are not broken.
      const prose = stdout.split('\n').filter((line) => !/^ {2}\S|Usage|Run/.test(line));
      expect(prose.filter((line) => line.length > 40)).toEqual([]);
    }
  });
});

it('a command with --reason, --yes or --dry-run has access to write, all others of the group look to read', () => {
  for (const { name, group, options, access } of commands) {
    const writes = options.some((one) => ['reason', 'yes', 'dry-run'].includes(one.name));
    if (writes) expect({ name, access }).toEqual({ name, access: 'write' });
    if (group === 'look') expect({ name, access }).toEqual({ name, access: 'read' });
  }
});

describe('wrong calls end with 2 and say what is valid', () => {
  it.each<[string, readonly string[], string]>([
    ['an unknown command', ['lits'], 'Did you mean `perdure list`?'],
    ['an unknown command without a near miss', ['xyzzy'], 'Run `perdure --help`'],
    [
      'an unknown subcommand',
      ['schedules', 'trigerr'],
      'Did you mean `perdure schedules trigger`?',
    ],
    [
      'an unknown subcommand with --help',
      ['schedules', 'trigerr', '--help'],
      'Did you mean `perdure schedules trigger`?',
    ],
    ['help of an unknown subcommand', ['help', 'sessions', 'xyzzy'], 'Commands of `sessions`'],
    [
      'an unknown subcommand of a group that is a command',
      ['retention', 'rnu'],
      'Did you mean `perdure retention run`?',
    ],
    ['a group without a command', ['token'], 'Commands of `token`: create.'],
    ['a directory as worker file', ['worker', '.', '--store', 'x.db'], '"." is a directory.'],
    ['a directory as file of dev', ['dev', '.', '--store', 'x.db'], '"." is a directory.'],
    ['an unknown option', ['list', '--stauts', 'failed'], 'Did you mean --status?'],
    ['an unknown option before the command', ['--jsno', 'list'], 'Did you mean --json?'],
    ['a token as option', ['list', '--token', 'x'], 'PERDURE_TOKEN or with --token-file'],
    ['a token before the command', ['--token=x', 'list'], 'PERDURE_TOKEN or with --token-file'],
    ['an unknown short option', ['list', '-q'], 'Unknown option -q of `perdure list`'],
    ['an option of another command', ['list', '--keep-last', '1'], 'Unknown option --keep-last'],
    ['only options', ['--json'], 'No command given'],
    ['a missing operand', ['show'], 'Missing <id>'],
    ['a second missing operand', ['event', 'a'], 'Missing <event>'],
    ['an extra operand', ['show', 'a', 'b'], 'Unexpected argument "b"'],
    ['a missing value', ['list', '--name'], 'Option --name needs a value'],
    ['a value that is an option', ['list', '--name', '--json'], 'write --name=--json'],
    ['a flag with a value', ['list', '--json=1'], 'takes no value'],
    ['a wrong choice', ['list', '--status', 'fialed'], 'Did you mean failed?'],
    ['a wrong choice without a near miss', ['list', '--order', 'x'], 'one of created, ended'],
    ['values with commas', ['list', '--status', 'failed,canceled'], 'Repeat --status'],
    ['a wrong number', ['list', '--limit', 'ten'], 'use a number'],
    ['a wrong duration', ['result', 'a', '--timeout', 'soon'], 'a duration such as 30s'],
    ['a wrong time', ['list', '--ended-from', 'yesterday'], 'a date such as'],
    ['a wrong tag', ['list', '--tag', 'ada', '--store', 'x.db'], 'use key=value'],
    ['an option twice', ['list', '--limit', '1', '--limit', '2'], 'was given twice'],
    ['wrong JSON', ['start', 'a', '{', '--store', 'x.db'], 'Invalid JSON in <input>'],
    [
      'a number that JavaScript cannot store',
      ['start', 'a', '{"cents": [12345678901234567890]}', '--store', 'x.db'],
      'Inexact number 12345678901234567890 in <input>: JavaScript would store 12345678901234567000.',
    ],
    ['an infinite number', ['event', 'a', 'b', '1e999', '--store', 'x.db'], 'Inexact number 1e999'],
    ['a missing file', ['start', 'a', '@nope.json', '--store', 'x'], 'the file does not exist'],
    ['a directory as file', ['start', 'a', '@.', '--store', 'x'], 'it is a directory'],
    ['an unknown shell', ['completion', 'bsh'], 'Did you mean bash?'],
    ['a store and a server', ['list', '--store', 'a', '--server', 'b'], 'not both'],
    ['an unknown profile', ['list', '--profile', 'prod'], 'Unknown profile "prod"'],
    ['no target', ['list'], 'Pass --store'],
  ])('%s', async (_, argv, text) => {
    const { code, stdout, stderr } = await runCli(argv, { cwd: directory });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(text);
  });

  it('with --json, the error is one JSON document on the standard error', async () => {
    const { code, stdout, stderr } = await runCli(['lits', '--json']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(failedSchema.safeParse(JSON.parse(stderr)).success).toBe(true);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'USAGE', exitCode: 2 } });
  });

  it('--json after -- is an argument', async () => {
    const { stderr } = await runCli(['show', '--store', 'nope.db', '--', '--json']);
    expect(stderr).toMatch(/^error: /);
  });

  it('-- ends the options, so that an id may begin with a dash', async () => {
    const { stderr } = await runCli(['show', '--store', 'nope.db', '--', '-1'], { cwd: directory });
    expect(stderr).toContain('nope.db');
  });
});

describe('tools', () => {
  it('version prints the versions', async () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    for (const argv of [['version'], ['--version'], ['-V']]) {
      expect((await runCli(argv)).stdout).toMatch(new RegExp(`^perdure ${version}, Node.js \\d+`));
    }
    const { json } = await runCli(['version', '--json']);
    expectSchema(['version'], json);
  });

  it('token create prints the token to the standard output and the hash to the standard error', async () => {
    const { code, stdout, stderr } = await runCli(['token', 'create', 'ci', '--role', 'operate']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^perdure_[\w-]{43}\n$/);
    expect(stderr).toMatch(/"role": "operate",\n {2}"sha256": "[0-9a-f]{64}"/);
    expect(stderr).not.toContain(stdout.trim());
    const argv = [
      'token',
      'create',
      'ci',
      '--definition',
      'order*',
      '--expires-in',
      '1d',
      '--json',
    ];
    const { json } = await runCli(argv);
    expectSchema(['token', 'create'], json);
    expect(json).toMatchObject({ entry: { definitions: ['order*'] } });
  });

  it('token create --out writes a private file and never overwrites one', async () => {
    const argv = ['token', 'create', 'ci', '--out', 'ci.token'];
    const file = join(directory, 'ci.token');
    const { code, stdout } = await runCli(argv, { cwd: directory });
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const before = readFileSync(file, 'utf8');
    expect(await runCli(argv, { cwd: directory })).toMatchObject({ code: 2 });
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect(existsSync(file)).toBe(true);
  });

  it.each(['bash', 'zsh', 'fish', 'powershell'])(
    'completion %s has all commands and options',
    async (shell) => {
      const { code, stdout } = await runCli(['completion', shell]);
      expect(code).toBe(0);
      for (const { name, options } of commands) {
        for (const word of name.split(' ')) expect(stdout).toContain(word);
        for (const option of options) expect(stdout).toContain(option.name);
      }
      const { json } = await runCli(['completion', shell, '--json']);
      expectSchema(['completion'], json);
    },
  );
});
