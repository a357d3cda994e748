import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { hello, openCliStore, sync, waiting, type CliStore } from './helpers/cli-store.ts';
import { cliOf, type TargetCli } from './helpers/targets.ts';

let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
});

afterAll(() => opened[Symbol.asyncDispose]());

describe.each(['store', 'server'] as const)('over a %s', (kind) => {
  let cli: TargetCli;
  const nightly = `nightly-${kind}`;
  beforeAll(async () => {
    cli = cliOf(opened, kind);
    await opened.perdure.client.schedules.put(nightly, { cron: '0 3 * * *', task: sync, input: 1 });
  });

  it('schedules list prints timing and next tick; schedules alone means the same', async () => {
    const { stdout } = await cli.run(['schedules', 'list']);
    expect(stdout).toMatch(new RegExp(`^${nightly} +0 3 \\* \\* \\* +sync +in \\d+`, 'm'));
    expect((await cli.run(['schedules'])).stdout).toBe(stdout);
    await cli.json(['schedules', 'list']);
  });

  it('schedules pause, resume, trigger and show', async () => {
    expect(await cli.json(['schedules', 'pause', nightly])).toEqual({
      name: nightly,
      paused: true,
    });
    expect((await cli.run(['schedules', 'list'])).stdout).toMatch(/ paused/);
    expect((await cli.run(['schedules', 'resume', nightly])).stdout).toBe(`${nightly}  resumed\n`);
    const argv = ['schedules', 'trigger', nightly, '--key', 'one'];
    const id = `${nightly}@trigger-one`;
    expect(await cli.json(argv)).toEqual({ id, created: true });
    expect(await cli.json(argv)).toEqual({ id, created: false });
    await opened.perdure.client.wait(id);
    const { stdout } = await cli.run(['schedules', 'show', nightly]);
    expect(stdout).toMatch(/^timing +0 3 \* \* \*$/m);
    expect(stdout).toMatch(new RegExp(`^${id} +completed`, 'm'));
    await cli.json(['schedules', 'show', nightly]);
    for (const command of ['show', 'trigger', 'pause', 'resume']) {
      const missing = await cli.run(['schedules', command, 'nope']);
      expect(missing.code).toBe(3);
      expect(missing.stderr).toContain('perdure schedules list');
    }
  });

  it('limits set, list, show and reset', async () => {
    const { client } = opened.perdure;
    const name = `limited-${kind}`;
    const unknown = await cli.run(['limits', 'set', name, '--global', '3']);
    expect(unknown).toMatchObject({ code: 3, stderr: expect.stringContaining('pass --kind') });
    const reset = await cli.run(['limits', 'reset', `no-${name}`]);
    expect(reset).toMatchObject({ code: 3, stderr: expect.stringContaining('pass --kind') });
    const argv = ['limits', 'set', name, '--kind', 'task', '--global', '3', '--per-key', '1'];
    const set = await cli.json([...argv, '--rate', '100/1m', '--rate-per-key', '--burst', '5']);
    const rate = { limit: 100, perMs: 60_000, burst: 5, perKey: true };
    expect(set).toMatchObject({ kind: 'task', name, effective: { global: 3, perKey: 1, rate } });
    await client.runTasks(
      ['acme', 'acme', 'globex'].map((key) => ({ task: name, options: { key } })),
    );
    const { stdout } = await cli.run(['limits']);
    expect(stdout).toMatch(
      new RegExp(
        `^${name} +task +3 at a time, 1 per key, 100 per minute per key \\(burst 5\\)`,
        'm',
      ),
    );
    await cli.json(['limits', 'list']);
    const shown = await cli.run(['limits', 'show', name]);
    expect(shown.stdout).toMatch(/^limits +3 at a time/m);
    expect(shown.stdout).toMatch(/^acme +1 +0 +2/m);
    expect(await cli.json(['limits', 'show', name, '--order', 'key', '-n', '1'])).toMatchObject({
      keys: [{ key: 'acme', waiting: 2 }],
      nextAfter: 'acme',
    });
    const removed = await cli.run(['limits', 'set', name, '--rate', 'none', '--reason', 'night']);
    expect(removed.stdout).toMatch(/^limits +3 at a time, 1 per key$/m);
    expect(removed.stdout).toMatch(/^set +3 at a time, 1 per key, no rate$/m);
    expect((await cli.run(['limits', 'reset', name])).stdout).toMatch(/^limits +none$/m);
    const [last, before] = (await client.listAudit({ action: ['limitsSet', 'limitsReset'] })).items;
    expect([last?.action, before?.reason]).toEqual(['limitsReset', 'night']);
    for (const wrong of [
      [],
      ['--rate', 'often'],
      ['--burst', '2'],
      ['--rate-per-key'],
      ['--global', 'many'],
      ['--global', '0'],
      ['--per-key', '1.5'],
    ]) {
      expect(await cli.run(['limits', 'set', name, ...wrong])).toMatchObject({ code: 2 });
    }
    expect(await cli.run(['limits', 'show', 'nope'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('perdure limits list'),
    });
  });

  it('schedules backfill starts past ticks in parts, each once, with a dry run', async () => {
    const argv = ['schedules', 'backfill', nightly, '--from', '2026-01-01', '--to', '2026-01-05'];
    expect(await cli.json([...argv, '--dry-run'])).toEqual({ started: 4, existing: 0 });
    expect(await cli.json([...argv, '--limit', '1'])).toEqual({ started: 4, existing: 0 });
    expect((await cli.run(argv)).stdout).toBe('started 0 runs, 4 existed\n');
    expect(await cli.run(['schedules', 'backfill', nightly])).toMatchObject({ code: 2 });
  });

  it('schedules backfill says where to continue after Ctrl-C', async () => {
    const controller = new AbortController();
    controller.abort();
    const argv = ['schedules', 'backfill', nightly, '--from', '2026-02-01'];
    const { code, stderr } = await cli.run(argv, { signal: controller.signal });
    expect(code).toBe(130);
    expect(stderr).toContain('Continue with --from 2026-02-01T00:00:00.000Z.');
  });

  it('schedules backfill ends after the current part on Ctrl-C, and --from continues it', async () => {
    const range = ['--to', '2026-03-06', '--limit', '2'];
    const argv = ['schedules', 'backfill', nightly, '--from', '2026-03-01', ...range];
    const controller = new AbortController();
    const stopped = await cli.run(argv, {
      columns: 80,
      signal: controller.signal,
      onMessage: (text) => {
        // Drawn after the first part.
        if (text.includes('starting runs')) controller.abort();
      },
    });
    expect(stopped).toMatchObject({ code: 130, stdout: 'started 2 runs, 0 existed\n' });
    const [, from = ''] = /Continue with --from (\S+)\.\n/.exec(stopped.stderr) ?? [];
    const rest = ['schedules', 'backfill', nightly, '--from', from, ...range];
    expect(await cli.json(rest)).toEqual({ started: 3, existing: 0 });
    const json = await cli.run([...argv, '--json'], { signal: AbortSignal.abort() });
    expect(json.json).toMatchObject({ started: 0, nextFrom: Date.parse('2026-03-01') });
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: 'INTERRUPTED' } });
  });

  it('sessions list, show and shutdown, by id or label', async () => {
    const { client } = opened.perdure;
    const session = await client.openSession({ label: `import-${kind}` });
    session.submit(waiting, undefined, { id: `job-${kind}` });
    await expect.poll(async () => (await client.get(`job-${kind}`))?.status).toBe('running');
    const { stdout } = await cli.run(['sessions', 'list', '--state', 'open']);
    expect(stdout).toMatch(new RegExp(`^${session.id} +import-${kind} +open +1`, 'm'));
    await cli.json(['sessions', 'list', '--label', `import-${kind}`]);
    expect(await cli.json(['sessions', 'show', `import-${kind}`])).toMatchObject({
      id: session.id,
      jobs: [{ id: `job-${kind}` }],
    });
    expect((await cli.run(['sessions', 'show', session.id])).stdout).toMatch(/^jobs +1 open job$/m);
    const argv = ['sessions', 'shutdown', `import-${kind}`, '--mode', 'forceful'];
    expect(await cli.run(argv)).toMatchObject({ code: 4 });
    expect(await cli.json([...argv, '--yes'])).toEqual({
      id: session.id,
      mode: 'forceful',
      state: 'ended',
    });
    expect(await cli.run(['sessions', 'show', 'nope'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('perdure sessions list'),
    });
  });

  it('retention shows, pauses, resumes and runs', async () => {
    expect((await cli.run(['retention'])).stdout).toMatch(/^paused +no$/m);
    expect(await cli.json(['retention', 'pause', '--reason', 'backup'])).toEqual({ paused: true });
    expect((await cli.run(['retention'])).stdout).toMatch(/^paused .*ago by (admin: )?ada$/m);
    await cli.json(['retention']);
    expect((await cli.run(['retention', 'resume'])).stdout).toBe('retention resumed\n');
    // No worker has policies yet.
    for (const flag of ['--dry-run', '--yes']) {
      expect(await cli.run(['retention', 'run', flag])).toMatchObject({
        code: 4,
        stderr: expect.stringContaining('Start a worker with the `retention` option.'),
      });
    }
  });

  it('audit lists actions, filtered by action, actor and time', async () => {
    await cli.run(['retention', 'pause', '--actor', `grace-${kind}`, '--reason', 'test']);
    await cli.run(['retention', 'resume']);
    const { stdout } = await cli.run(['audit', '--action', 'retentionPause', '-n', '1']);
    expect(stdout).toMatch(new RegExp(`retentionPause +(admin: )?grace-${kind} .*test$`, 'm'));
    const { items } = await cli.json<{ items: unknown[] }>(['audit', '--from', '1h']);
    expect(items.length).toBeGreaterThan(1);
    expect(await cli.json(['audit', '--to', '1h'])).toEqual({ items: [] });
    expect(await cli.run(['audit', '--action', 'cancle'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Did you mean cancel?'),
    });
  });
});

describe.each(['store', 'server'] as const)('retention run over a %s', (kind) => {
  let cli: TargetCli;
  beforeAll(async () => {
    cli = cliOf(opened, kind);
    const { client } = opened.perdure;
    if ((await client.retention.status()).policies !== null) return;
    const worker = await opened.perdure.startWorker({
      tasks: [sync],
      retention: { policies: [{ names: hello.name, statuses: 'completed', keepFor: 1 }] },
    });
    await vi.waitUntil(async () => (await client.retention.status()).policies !== null, 20_000);
    await worker.stop();
  });

  /** Starts an instance that the policy no longer keeps. */
  const startOld = async (name: string): Promise<string> => {
    const id = `${name}-${kind}`;
    await (await opened.perdure.client.start(hello, 1, { id })).result();
    return id;
  };
  const exists = async (id: string) => (await opened.perdure.client.get(id)) !== undefined;

  it('deletes what the policies of a worker no longer keep, after a confirmation', async () => {
    const id = await startOld('old');
    expect(await cli.json(['retention', 'run', '--dry-run'])).toMatchObject({
      outcome: 'done',
      deleted: { instancesDeleted: 1 },
    });
    expect(await cli.run(['retention', 'run'])).toMatchObject({ code: 4 });
    expect(await exists(id)).toBe(true);
    const { code, stdout } = await cli.run(['retention', 'run', '--yes']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^deleted +1 instance, /m);
    expect(await exists(id)).toBe(false);
    expect((await cli.run(['retention'])).stdout).toMatch(/hello completed: keep for 1ms/);
  });

  it('draws a progress bar at a terminal', async () => {
    const id = await startOld('bar');
    const { code, stderr } = await cli.run(['retention', 'run', '--yes'], { columns: 80 });
    expect(code).toBe(0);
    expect(stderr).toContain('deleting [');
    expect(stderr).toContain('0 of 1');
    expect(await exists(id)).toBe(false);
  });

  it('Ctrl-C ends it with 130, and the standard error is one JSON document', async () => {
    const id = await startOld('interrupted');
    const signal = AbortSignal.abort();
    const text = await cli.run(['retention', 'run', '--yes'], { signal });
    expect(text).toMatchObject({
      code: 130,
      stderr: expect.stringMatching(/^Interrupted\.\nRun `perdure retention run .*` again: /),
    });
    const json = await cli.run(['retention', 'run', '--yes', '--json'], { signal });
    expect(json.code).toBe(130);
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: 'INTERRUPTED' } });
    if (kind === 'store') expect(json.json).toMatchObject({ outcome: 'stopped' });
    expect(await exists(id)).toBe(true);
    // At a terminal, after the bar was drawn.
    const controller = new AbortController();
    const stopped = await cli.run(['retention', 'run', '--yes'], {
      columns: 80,
      signal: controller.signal,
      onMessage: (message) => {
        if (message.includes('deleting [')) controller.abort();
      },
    });
    expect(stopped).toMatchObject({ code: 130 });
    expect(stopped.stderr).toContain('Interrupted.');
    expect((await cli.run(['retention', 'run', '--yes'])).code).toBe(0);
    expect(await exists(id)).toBe(false);
  });
});
