import { expect } from 'vitest';
import { schemas } from '../../../src/cli/schemas.ts';
import type { CliStore } from './cli-store.ts';
import { runCli, type CliResult, type Surroundings } from './run-cli.ts';

/** The ways to reach a store. */
export type TargetKind = 'store' | 'server';

/** Runs commands on a store, directly or over its server. */
export interface TargetCli {
  run(argv: readonly string[], surroundings?: Surroundings): Promise<CliResult>;
  /** Runs a command with `--json`, expects the exit code, and checks the output against the schema. */
  json<Value = Readonly<Record<string, unknown>>>(
    argv: readonly string[],
    code?: number,
  ): Promise<Value>;
}

/** Returns the command line of a target. */
export function cliOf(store: CliStore, kind: TargetKind): TargetCli {
  const options = kind === 'store' ? ['--store', store.store] : ['--server', store.url];
  const env = { USER: 'ada', PERDURE_TOKEN: store.tokens.admin };
  const run: TargetCli['run'] = (argv, surroundings = {}) =>
    runCli([...argv, ...options], {
      cwd: store.directory,
      ...surroundings,
      env: { ...env, ...surroundings.env },
    });
  return {
    run,
    json: async <Value>(argv: readonly string[], code = 0) => {
      const result = await run([...argv, '--json']);
      const { code: found, stderr } = result;
      expect({ argv, code: found, stderr }).toEqual({ argv, code, stderr: '' });
      expectSchema(argv, result.json);
      return result.json as Value;
    },
  };
}

/** Expects that a document matches the schema of its command. */
export function expectSchema(argv: readonly string[], document: unknown): void {
  const [first = '', second = ''] = argv;
  const schema = schemas[`${first} ${second}`] ?? schemas[first];
  const parsed = schema?.safeParse(document);
  expect(parsed?.success === true ? [] : (parsed?.error.issues ?? ['no schema'])).toEqual([]);
}
