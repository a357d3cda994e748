import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, silentLogger } from 'perdure';
import { createToken } from 'perdure/server';
import { migrate, migrations } from '../../../src/providers/sqlite/migrations/migrate.ts';
import { parseJson } from '../doctor/parse-json.ts';
import { createDatabase } from '../../postgres/helpers/server.ts';
import { emptyFolder, installPackage, runProgram, startProgram } from './cli-process.ts';

const source = `import { task, orchestration } from 'perdure';
export const definitions = [task('double', async (_ctx, n: number) => 2 * n)];
export default {
  activityConcurrency: 7,
  orchestrations: [orchestration('twice', async (_ctx, n: number) => 2 * n)],
};
`;

function project(text = source): string {
  const cwd = emptyFolder();
  installPackage(cwd);
  writeFileSync(join(cwd, 'worker.ts'), text);
  return cwd;
}

describe.each(['SQLite', 'PostgreSQL'] as const)('perdure worker on %s', (kind) => {
  it('creates the store, runs what the file exports, and leaves the registry on SIGTERM', async () => {
    const cwd = project();
    const database = kind === 'SQLite' ? undefined : await createDatabase();
    if (database !== undefined) onTestFinished(() => database.drop());
    const store = database?.url ?? join(cwd, 'app.db');
    const env = { PERDURE_STORE: store };
    const worker = startProgram(['worker', 'worker.ts', '--worker-name', 'w-1'], { cwd, env });
    await worker.until(/worker +worker\.ts {2}1 orchestration, 1 task\n/);
    const perdure = await Perdure.open(store, { logger: silentLogger });
    onTestFinished(() => perdure.close());
    const { client } = perdure;
    expect(await (await client.runTask('double', 21)).result()).toBe(42);
    expect(await (await client.start('twice', 4)).result()).toBe(8);
    expect(await client.workers()).toMatchObject([{ name: 'w-1', slots: { activities: 7 } }]);
    worker.child.kill('SIGTERM');
    expect((await worker.finished).code).toBe(0);
    expect(await client.workers()).toEqual([]);
    expect(worker.stdout).not.toContain('only-for-tests');
  });
});

describe('perdure worker', () => {
  it('ends with 5 when the database file is replaced', async () => {
    const cwd = project();
    const store = join(cwd, 'app.db');
    const worker = startProgram(['worker', 'worker.ts', '--store', store], { cwd });
    await worker.until(/worker +worker\.ts/);
    for (const file of [store, `${store}-wal`, `${store}-shm`]) rmSync(file);
    const { code } = await worker.finished;
    expect(code).toBe(5);
    expect(worker.stderr).toContain('the database file was deleted or replaced');
  });

  it('--json prints the store, the file, the process and the definitions', async () => {
    const cwd = project();
    const worker = startProgram(['worker', 'worker.ts', '--store', 'app.db', '--json'], { cwd });
    const [line] = await worker.until(/^\{.*\}\n/);
    expect(parseJson('worker', line)).toEqual({
      store: 'app.db',
      file: join(cwd, 'worker.ts'),
      pid: worker.child.pid,
      definitions: '1 orchestration, 1 task',
    });
  });

  it('rejects a file without definitions, and shows an error of the file', async () => {
    const cwd = project('export const nothing = 1;');
    writeFileSync(join(cwd, 'broken.ts'), "throw new Error('no such key');");
    const options = { cwd, env: { PERDURE_STORE: 'app.db' } };
    const [none, broken] = await Promise.all([
      runProgram(['worker', 'worker.ts'], options),
      runProgram(['worker', 'broken.ts'], options),
    ]);
    expect(none.code).toBe(1);
    expect(none.stderr).toContain('worker.ts exports no orchestration, activity, task or flow.');
    expect(broken).toMatchObject({ code: 1, stderr: expect.stringContaining('no such key') });
  });

  it('and perdure replay end with 1 for a file that never finishes loading', async () => {
    const cwd = project('await new Promise(() => {});');
    writeFileSync(join(cwd, 'history.json'), '{"instanceId": "a", "events": []}');
    const options = { cwd, env: { PERDURE_STORE: 'app.db' } };
    const [worker, replay] = await Promise.all([
      runProgram(['worker', 'worker.ts'], options),
      runProgram(['replay', 'history.json', '--code', 'worker.ts', '--json'], options),
    ]);
    expect(worker).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^error: worker\.ts never finishes loading: an `await` at/),
    });
    expect(replay.code).toBe(1);
    expect(JSON.parse(replay.stderr)).toMatchObject({ error: { code: 'NEVER_LOADED' } });
  });
});

describe('perdure serve', () => {
  it('serves the dashboard of a store, migrates only with --migrate, and stops on SIGTERM', async () => {
    const cwd = emptyFolder();
    const db = new Database(join(cwd, 'app.db'));
    migrate(db, 0, migrations.slice(0, -1));
    db.close();
    const args = ['serve', '--store', 'app.db', '--port', '0'];
    const old = await runProgram(args, { cwd });
    expect(old).toMatchObject({ code: 4, stderr: expect.stringContaining('perdure migrate') });
    const server = startProgram([...args, '--migrate', '--read-only'], { cwd });
    const [, url = ''] = await server.until(/dashboard +(http:\S+)/);
    const page = await fetch(url, { headers: { accept: 'text/html' } });
    expect(page.headers.get('content-type')).toContain('text/html');
    expect((await fetch(`${url}/v1/instances`)).status).toBe(200);
    const port = new URL(url).port;
    const second = await runProgram(['serve', '--store', 'app.db', '--port', port], { cwd });
    expect(second).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use') });
    server.child.kill('SIGTERM');
    expect((await server.finished).code).toBe(0);
  });

  it('needs tokens on a public address, and accepts those of a file', async () => {
    const cwd = emptyFolder();
    await (await Perdure.open(join(cwd, 'app.db'))).close();
    const { token, sha256 } = createToken();
    writeFileSync(
      join(cwd, 'tokens.json'),
      JSON.stringify([{ name: 'ops', role: 'read', sha256 }]),
    );
    const args = ['serve', '--store', 'app.db', '--port', '0', '--host', '0.0.0.0'];
    const open = await runProgram(args, { cwd });
    expect(open.code).toBe(2);
    expect(open.stderr).toMatch(
      /needs --tokens\.\nRun `perdure token create .*--tokens tokens\.json\.\n$/,
    );
    const tokens = ['--allow-host', '127.0.0.1', '--tokens', 'tokens.json'];
    const server = startProgram([...args, ...tokens, '--json'], { cwd });
    const [line] = await server.until(/^\{.*\}\n/);
    const { url } = parseJson('serve', line) as { readonly url: string };
    const status = async (headers: Record<string, string>) =>
      (await fetch(`${url}/v1/instances`, { headers })).status;
    expect(await status({})).toBe(401);
    expect(await status({ authorization: `Bearer ${token}` })).toBe(200);
  });
});
