import { execFileSync } from 'node:child_process';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { runSql } from '../../postgres/helpers/server.ts';
import { runCli, type Surroundings } from '../helpers/run-cli.ts';

/** Splits a command into words as a shell does, with the URL in `$PERDURE_STORE`. */
export function shellWords(command: string, url = ''): readonly string[] {
  const script = `set -f; printf '%s\\0' ${command}`;
  const text = execFileSync('sh', ['-c', script], { env: { PERDURE_STORE: url } }).toString();
  return text.split('\0').slice(0, -1);
}

/** Runs the last command in the remedy of a finding. `psql` and `sqlite3` are the drivers, because CI has no such programs. */
export async function runRemedy(
  { remedy }: Finding,
  url = '',
  surroundings: Surroundings = {},
): Promise<void> {
  const commands = [...remedy.matchAll(/`((?:perdure|psql|sqlite3|chmod) [^`]+)`/g)];
  const command = commands.at(-1)?.[1] ?? '';
  const [program = '', ...args] = shellWords(command, url);
  if (program === 'perdure') {
    const { code, stderr } = await runCli(args, surroundings);
    expect({ remedy, code, stderr }).toMatchObject({ code: 0 });
    return;
  }
  if (program === 'chmod') {
    // With a shell, because the path can end with `*`.
    execFileSync('sh', ['-c', command]);
    return;
  }
  const [target = '', ...rest] = args;
  const sql = rest.at(-1) ?? '';
  if (sql === '') throw new Error(`No command in the remedy: ${remedy}`);
  if (program === 'psql') {
    await runSql(target, sql);
    return;
  }
  expect(program).toBe('sqlite3');
  const db = new Database(target);
  db.exec(sql);
  db.close();
}
