import { execFileSync } from 'node:child_process';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { runSql } from '../../postgres/helpers/server.ts';
import { runCli } from '../helpers/run-cli.ts';

/** Splits a command into words as a shell does, for the quotes that remedies use. */
function shellWords(command: string, url: string): readonly string[] {
  const words = command.match(/(?:[^\s'"]+|'[^']*'|"[^"]*")+/g) ?? [];
  return words.map((word) =>
    word
      .replace('"$PERDURE_STORE"', url)
      .replaceAll(/^'([^']*)'$/g, '$1')
      .replaceAll(/^"([^"]*)"$/g, '$1'),
  );
}

/** Runs the last command in the remedy of a finding. `psql` and `sqlite3` are the drivers, because CI has no such programs. */
export async function runRemedy({ remedy }: Finding, url = ''): Promise<void> {
  const commands = [...remedy.matchAll(/`((?:perdure|psql|sqlite3|chmod) [^`]+)`/g)];
  const command = commands.at(-1)?.[1] ?? '';
  const [program = '', ...args] = shellWords(command, url);
  if (program === 'perdure') {
    const { code, stderr } = await runCli(args);
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
