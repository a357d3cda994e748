import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { reportOnPostgres } from '../../../src/providers/postgres/report.ts';
import { createDatabase } from '../../postgres/helpers/server.ts';
import { openCliStore } from '../helpers/cli-store.ts';
import { runCli, type Surroundings } from '../helpers/run-cli.ts';
import { emptyFolder } from '../processes/cli-process.ts';
import { parseJson } from './parse-json.ts';
import { runRemedy } from './run-remedy.ts';

async function doctor(
  options: readonly string[],
  surroundings: Surroundings,
): Promise<readonly Finding[]> {
  const { stdout } = await runCli(['doctor', '--json', ...options], surroundings);
  return (parseJson('doctor', stdout) as { readonly findings: readonly Finding[] }).findings;
}

async function findingOf(
  id: string,
  options: readonly string[],
  surroundings: Surroundings,
): Promise<Finding> {
  const findings = await doctor(options, surroundings);
  const found = findings.find((one) => one.id === id);
  if (found === undefined) throw new Error(`No ${id} in ${JSON.stringify(findings)}`);
  return found;
}

describe('the remedies of a PostgreSQL store', () => {
  async function twoDatabases() {
    const [wanted, other] = await Promise.all([createDatabase(), createDatabase()]);
    onTestFinished(async () => {
      await Promise.all([wanted.drop(), other.drop()]);
    });
    const kindOf = async (url: string, schema?: string) =>
      (await reportOnPostgres({ url, ...(schema !== undefined && { schema }) })).schema?.kind;
    return { wanted: wanted.url, other: other.url, kindOf };
  }

  it.each(['prod', 'default'])('profile %s: they run on its database and schema', async (name) => {
    const { wanted, other, kindOf } = await twoDatabases();
    const cwd = emptyFolder();
    const profiles = { [name]: { store: wanted, schema: 'app' } };
    writeFileSync(join(cwd, 'perdure.config.json'), JSON.stringify({ profiles }));
    const options = name === 'default' ? [] : ['--profile', name];
    const found = await findingOf('schema-new', options, { cwd });
    // The variable may have the URL of another database later.
    await runRemedy(found, other, { cwd, env: { PERDURE_STORE: other } });
    expect(await kindOf(wanted, 'app')).toBe('current');
    expect(await kindOf(other)).toBe('new');
    const idle = await findingOf('idle-transactions', options, { cwd });
    expect(idle.remedy).toMatch(
      new RegExp(`^Set PERDURE_STORE to the URL of profile "${name}" first\\. Run \`psql`),
    );
  });

  it('an option --store: they name the variable to set', async () => {
    const { wanted, other, kindOf } = await twoDatabases();
    const env = { PERDURE_STORE: other };
    const found = await findingOf('schema-new', ['--store', wanted], { env });
    expect(found.remedy).toMatch(/^Set PERDURE_STORE to the URL of the option --store first\./);
    await runRemedy(found, wanted);
    expect(await kindOf(wanted)).toBe('current');
  });
});

it.each(['a profile', '--token-file'])('the remedies of a server run with %s', async (by) => {
  await using opened = await openCliStore();
  const { client } = opened.perdure;
  await client.pause({ kind: 'task', name: 'pdf' });
  const cwd = join(opened.directory, 'project');
  mkdirSync(cwd);
  writeFileSync(join(cwd, 'admin.token'), opened.tokens.admin);
  const profiles = { prod: { server: opened.url, tokenFile: 'admin.token' } };
  writeFileSync(join(cwd, 'perdure.config.json'), JSON.stringify({ profiles }));
  const options =
    by === 'a profile'
      ? ['--profile', 'prod']
      : ['--server', opened.url, '--token-file', 'admin.token'];
  await runRemedy(await findingOf('paused-definitions', options, { cwd }), '', { cwd });
  expect(await client.pausedDefinitions()).toEqual([]);
});
