import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { LocalClient } from '../../../src/client/local-client.ts';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { openPostgres } from '../../../src/providers/postgres/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { newWorker } from '../../../src/testing/conformance/sample-data.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { createDatabase } from '../../postgres/helpers/server.ts';
import { emptyFolder, installPackage, runProgram, startProgram } from '../processes/cli-process.ts';
import { parseJson } from './parse-json.ts';

const source = `import { task } from 'perdure';
export const definitions = [task('double', async (_ctx, n: number) => 2 * n)];
`;

it.each(['SQLite', 'PostgreSQL'] as const)(
  'the worker that the remedies start ends no-workers, unclaimed-work, stale-workers and late-schedules on %s',
  async (kind) => {
    const cwd = emptyFolder();
    installPackage(cwd);
    writeFileSync(join(cwd, 'worker.ts'), source);
    const database = kind === 'SQLite' ? undefined : await createDatabase();
    if (database !== undefined) onTestFinished(() => database.drop());
    const store = database?.url ?? join(cwd, 'app.db');
    await createProblems(store, kind);

    const env = { PERDURE_STORE: store };
    const doctor = async (): Promise<readonly Finding[]> => {
      const { stdout } = await runProgram(['doctor', '--json'], { cwd, env });
      const { findings } = parseJson('doctor', stdout) as { readonly findings: readonly Finding[] };
      return findings.filter(({ level }) => level !== 'note');
    };
    const findings = await doctor();
    expect(findings.map(({ id }) => id)).toEqual([
      'no-workers',
      'unclaimed-work',
      'stale-workers',
      'late-schedules',
    ]);
    const commands = findings.map(
      ({ remedy }) => /`perdure (worker <file> --store \S+)`/.exec(remedy)?.[1],
    );
    expect(new Set(commands).size).toBe(1);
    const args = (commands[0] ?? '').replace('<file>', 'worker.ts').split(' ');
    startProgram(
      args.map((arg) => (arg === '"$PERDURE_STORE"' ? store : arg)),
      { cwd, env },
    );
    await expect.poll(doctor, { interval: 500, timeout: 20_000 }).toEqual([]);
  },
);

/** Creates a lost worker, a task run and a schedule, all five minutes ago. */
async function createProblems(store: string, kind: 'SQLite' | 'PostgreSQL'): Promise<void> {
  const clock = new FakeClock({ startAt: Date.now() - 300_000 });
  const provider =
    kind === 'SQLite'
      ? await openSqlite({ path: store, clock })
      : await openPostgres({ url: store, clock, poolSize: 2 });
  const client = new LocalClient({ provider, clock });
  try {
    const lost = newWorker('lost', { heartbeatMs: 1_000, tasks: ['double'] });
    await provider.registerWorkers([lost]);
    await client.runTask('double', 21);
    await client.schedules.put('nightly', { every: '1m', task: 'double', input: 1 });
  } finally {
    await client.close();
    await provider.close();
  }
}
