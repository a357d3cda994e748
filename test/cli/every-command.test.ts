import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { failedSchema } from '../../src/cli/schemas.ts';
import { openCliStore, type CliStore } from './helpers/cli-store.ts';
import { callsOf, endless, type Call } from './helpers/every-call.ts';
import { runCli } from './helpers/run-cli.ts';
import { cliOf, expectSchema } from './helpers/targets.ts';

// oxlint-disable-next-line eslint/no-control-regex -- finds escapes
const escapes = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/;

let opened: CliStore;
beforeAll(async () => {
  opened = await openCliStore();
});
afterAll(() => opened[Symbol.asyncDispose]());

it('this test calls every command', () => {
  const names = [...Object.keys(callsOf('', '/')), ...endless];
  expect(names.toSorted()).toEqual(commands.map(({ name }) => name).toSorted());
});

describe.each(['store', 'server'] as const)('over a %s', (kind) => {
  it.each(Object.keys(callsOf('', '/')))(
    '%s prints text to a pipe and to a terminal without escapes, and JSON of its schema',
    async (name) => {
      for (const form of ['piped', 'terminal', 'json'] as const) {
        const key = `${name.replace(' ', '-')}-${kind}-${form}`;
        const { argv, before, code = 0, local } = callsOf(key, opened.directory)[name] as Call;
        await before?.(opened, key);
        const args = form === 'json' ? [...argv, '--json'] : argv;
        const surroundings = form === 'terminal' ? { columns: 40 } : {};
        const called =
          local === true ? runCli(args, surroundings) : cliOf(opened, kind).run(args, surroundings);
        const { stdout, stderr, code: found } = await called;
        expect({ argv: args, code: found, stderr }).toMatchObject({ code });
        // A terminal has progress bars on the standard error.
        expect(form === 'terminal' ? stdout : `${stdout}${stderr}`).not.toMatch(escapes);
        if (form !== 'json') continue;
        if (code !== 0) {
          expect(failedSchema.safeParse(JSON.parse(stderr))).toMatchObject({ success: true });
          continue;
        }
        const isLines = name === 'watch' || name === 'stream';
        for (const line of isLines ? stdout.trim().split('\n') : [stdout])
          expectSchema(argv, JSON.parse(line));
      }
    },
  );
});
