import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Command } from '../../src/cli/command.ts';
import { commands } from '../../src/cli/commands.ts';
import { parseArguments } from '../../src/cli/parse-arguments.ts';
import { schemas } from '../../src/cli/schemas.ts';
import { optionsOf } from '../../src/cli/shared-options.ts';

const terminal = { cwd: '/', readStdin: () => Promise.resolve('') };

const tests = globSync('**/*.test.ts', { cwd: import.meta.dirname })
  .filter((file) => file !== 'table.test.ts')
  .map((file) => readFileSync(join(import.meta.dirname, file), 'utf8'))
  .join('\n');

/** Splits an example as a shell does. */
function splitWords(line: string): readonly string[] {
  return [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, plain]) => single ?? double ?? plain ?? '',
  );
}

describe.each(commands.map((command): [string, Command] => [command.name, command]))(
  'perdure %s',
  (name, command) => {
    it('has a schema for its JSON', () => {
      expect(schemas).toHaveProperty([name]);
    });

    it('has examples that parse to it', () => {
      expect(command.examples.length).toBeGreaterThan(0);
      for (const example of command.examples) {
        const [program, ...argv] = splitWords(example);
        expect(program).toBe('perdure');
        expect(parseArguments(argv, commands, terminal)).toMatchObject({ command: { name } });
      }
    });

    it('has a test', () => {
      const words = name.split(' ').map((word) => `'${word}'`);
      expect(tests).toMatch(new RegExp(words.join(String.raw`,\s*`)));
    });

    it('loads', async () => {
      expect(await command.load()).toHaveProperty('run');
    });

    it('has a summary without a full stop, and options with unique names', () => {
      expect(command.summary).toMatch(/^[A-Z].*[^.]$/);
      const names = optionsOf(command).flatMap(({ name: option, short }) =>
        short === undefined ? [option] : [option, short],
      );
      expect(new Set(names).size).toBe(names.length);
      for (const { summary } of optionsOf(command)) expect(summary).toMatch(/^[A-Z$].*[^.]$/);
    });
  },
);

describe('the table', () => {
  it('has unique names and no schema without a command', () => {
    const names = commands.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(Object.keys(schemas).toSorted()).toEqual(names.toSorted());
  });

  it('has no option whose value is a secret', () => {
    const texts = commands.flatMap(optionsOf).filter(({ value }) => value === 'text');
    const secrets = texts.filter(({ name }) => /token|password|secret|credential/.test(name));
    expect(secrets).toEqual([]);
  });

  it('has options that are a flag in all commands, or take a value in all', () => {
    const kinds = new Map<string, Set<boolean>>();
    const shorts = new Map<string, Set<string>>();
    for (const { name, short, value } of commands.flatMap(optionsOf)) {
      kinds.set(name, (kinds.get(name) ?? new Set()).add(value === undefined));
      if (short !== undefined) shorts.set(short, (shorts.get(short) ?? new Set()).add(name));
    }
    expect([...kinds].filter(([, found]) => found.size > 1)).toEqual([]);
    expect([...shorts].filter(([, found]) => found.size > 1)).toEqual([]);
  });
});
