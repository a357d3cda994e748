import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  counting,
  failing,
  hello,
  openCliStore,
  parent,
  waiting,
  type CliStore,
} from './helpers/cli-store.ts';
import { cliOf, type TargetCli } from './helpers/targets.ts';

let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
});

afterAll(() => opened[Symbol.asyncDispose]());

describe.each(['store', 'server'] as const)('over a %s', (kind) => {
  let cli: TargetCli;
  beforeAll(() => {
    cli = cliOf(opened, kind);
  });

  const idOf = (name: string) => `${name}-${kind}`;
  const statusOf = async (id: string) => (await opened.perdure.client.get(id))?.status;
  const startWaiting = (name: string) =>
    opened.perdure.client.start(waiting, undefined, { id: idOf(name), tags: { kind } });
  const startFailed = async (name: string) => {
    const handle = await opened.perdure.client.start(failing, undefined, { id: idOf(name) });
    await handle.result().catch(() => null);
  };

  it('start prints the id, and with --wait the output', async () => {
    const id = idOf('start');
    const started = await cli.run(['start', 'hello', '{"a": 1}', '--id', id, '--tag', 'a=b']);
    expect(started).toMatchObject({ code: 0, stdout: `${id}\n`, stderr: '' });
    expect(await cli.run(['start', 'hello', '"Ada"', '--wait'])).toMatchObject({
      code: 0,
      stdout: '"Ada"\n',
    });
    expect(await cli.json(['start', 'hello', '1', '--wait'])).toMatchObject({ output: 1 });
    expect((await cli.run(['start', 'failing', '--wait'])).code).toBe(7);
    expect((await cli.run(['start', 'waiting', '--wait', '--timeout', '20ms'])).code).toBe(6);
  });

  it('start of a name that no live worker has warns, with the near miss', async () => {
    const near = await cli.run(['start', 'helo', '--id', idOf('near')]);
    expect(near).toMatchObject({ code: 0, stdout: `${idOf('near')}\n` });
    expect(near.stderr).toBe(
      'warning: No live worker has orchestration "helo": it waits for one. Did you mean "hello"?\n',
    );
    const far = await cli.run(['start', 'xyzzy', '--task', '--id', idOf('far')]);
    expect(far.stderr).toBe('warning: No live worker has task "xyzzy": it waits for one.\n');
    const task = await cli.run(['start', 'sync', '--id', idOf('task-name')]);
    expect(task.stderr).toBe(
      'warning: No live worker has orchestration "sync", but a task of this name. Cancel this one, and start it again with --task.\n',
    );
    const other = await cli.run(['start', 'hello', '--task', '--id', idOf('orchestration-name')]);
    expect(other.stderr).toContain('start it again without --task.');
    // It ended before its first turn, so its input is gone.
    await cli.run(['cancel', idOf('near')]);
    const again = await cli.run(['retry', idOf('near')]);
    expect(again).toMatchObject({ code: 2 });
    expect(again.stderr).toContain('--from start --input <json>');
    const fixed = await cli.run(['retry', idOf('near'), '--from', 'start', '--input', '1']);
    expect(fixed).toMatchObject({ code: 0 });
  });

  it('start of an existing instance says so', async () => {
    const argv = ['start', 'hello', '1', '--id', idOf('existing')];
    expect(await cli.run(argv)).toMatchObject({ code: 0, stderr: '' });
    const text = `"${idOf('existing')}" exists already: no new run was started.\n`;
    expect(await cli.run(argv)).toMatchObject({ stdout: `${idOf('existing')}\n`, stderr: text });
    const waited = await cli.run([...argv, '--wait']);
    expect(waited).toMatchObject({ stdout: '1\n', stderr: `${text}${idOf('existing')}\n` });
  });

  it('start --wait says after 3 s what the instance waits for', async () => {
    const argv = ['start', 'unregistered', '--wait', '--timeout', '4s'];
    const { code, stderr } = await cli.run(argv);
    expect(code).toBe(6);
    expect(stderr).toMatch(/warning: No live worker has orchestration "unregistered".*\n.*due for/);
  });

  it('start reads the input from a file and from the standard input', async () => {
    writeFileSync(join(opened.directory, 'input.json'), '[1, 2]');
    expect((await cli.run(['start', 'hello', '@input.json', '-w'])).stdout).toBe('[1,2]\n');
    const piped = await cli.run(['start', 'hello', '-', '-w'], { stdin: '{"b": null}' });
    expect(piped.stdout).toBe('{"b":null}\n');
  });

  it('start --task runs a task with its options', async () => {
    const argv = ['start', 'sync', '7', '--task', '--id', idOf('task'), '--priority', '9'];
    expect(await cli.json(argv)).toEqual({ id: idOf('task'), created: true });
    expect(await cli.json(argv)).toEqual({ id: idOf('task'), created: false });
    expect((await cli.run(['start', 'hello', '--expires-in', '1m'])).code).toBe(2);
    const prioritized = ['start', 'hello', '1', '--id', idOf('prioritized'), '--priority', '9'];
    expect(await cli.json(prioritized)).toMatchObject({ id: idOf('prioritized') });
  });

  it('start with an id of another start ends with 4', async () => {
    const id = idOf('taken');
    await opened.perdure.client.start(hello, 1, { id });
    expect(await cli.run(['start', 'hello', '2', '--id', id])).toMatchObject({ code: 4 });
  });

  it('event sends a payload, and ends with 4 for an ended instance', async () => {
    const handle = await startWaiting('event');
    expect(await cli.json(['event', handle.id, 'go', '{"a": 1}'])).toEqual({
      id: handle.id,
      event: 'go',
    });
    expect(await handle.result()).toEqual({ a: 1 });
    const late = await cli.run(['event', handle.id, 'go']);
    expect(late.code).toBe(4);
    expect(late.stderr).toContain(`perdure show ${handle.id}`);
    const { stderr } = await cli.run(['event', handle.id, 'go', '--json']);
    const next = expect.stringMatching(`^Run .perdure show ${handle.id} --(store|server) `);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'INSTANCE_OVER', next } });
  });

  it('update prints the reply, and ends with 4 for a rejected or unknown update', async () => {
    const { id } = await startWaiting('update');
    expect(await cli.run(['update', id, 'add', '41'])).toMatchObject({ code: 0, stdout: '42\n' });
    expect(await cli.json(['update', id, 'add', '1', '--key', 'k'])).toEqual({
      id,
      update: 'add',
      output: 2,
    });
    const rejected = await cli.run(['update', id, 'add', '"x"']);
    expect(rejected.code).toBe(4);
    expect(rejected.stderr).toContain('not a number');
    expect((await cli.run(['update', id, 'subtract', '1'])).code).toBe(4);
    expect((await cli.run(['update', id, 'add', '2', '--key', 'k'])).code).toBe(4);
    expect((await cli.run(['update', 'nope', 'add', '2'])).code).toBe(3);
  });

  it('update --timeout ends with 6 if no worker replies in time', async () => {
    const id = idOf('late-update');
    await opened.perdure.client.start('unregistered', undefined, { id });
    const { code, stderr } = await cli.run(['update', id, 'add', '1', '--timeout', '100ms']);
    expect(code).toBe(6);
    expect(stderr).toContain(`perdure why ${id}`);
    const json = await cli.run(['update', id, 'add', '1', '--timeout', '100ms', '--json']);
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: 'TIMEOUT', exitCode: 6 } });
  });

  it('cancel stops instances by id, with reason and actor, and ends with 3 for an unknown one', async () => {
    const { id } = await startWaiting('cancel');
    const { code, stdout, stderr } = await cli.run([
      'cancel',
      id,
      'nope',
      '--wait',
      '--reason',
      'asked',
    ]);
    expect({ code, stdout }).toEqual({ code: 3, stdout: `${id}  canceled\n` });
    expect(stderr).toContain('"nope" does not exist');
    const info = await opened.perdure.client.get(id);
    expect(info?.cancel).toMatchObject({
      reason: 'asked',
      actor: kind === 'store' ? 'ada' : 'admin: ada',
    });
    const items = await cli.json(['cancel', id, 'nope'], 3);
    expect(items).toMatchObject({
      items: [
        { id, found: true, changed: false, status: 'canceled' },
        { id: 'nope', error: { code: 'INSTANCE_NOT_FOUND', exitCode: 3 } },
      ],
    });
  });

  it('a termination by an unknown user is recorded in the audit as one of cli', async () => {
    const { id } = await startWaiting('audited');
    await cli.run(['terminate', id, '--yes', '--reason', 'test'], { env: { USER: undefined } });
    const audit = await opened.perdure.client.listAudit({ instanceId: id });
    expect(audit.items).toMatchObject([
      { action: 'terminate', reason: 'test', actor: kind === 'store' ? 'cli' : 'admin: cli' },
    ]);
  });

  it('terminate asks, and with --yes ends the instance', async () => {
    const { id } = await startWaiting('terminate');
    const piped = await cli.run(['terminate', id]);
    expect(piped).toMatchObject({ code: 4 });
    expect(piped.stderr).toContain('Pass --yes to confirm.');
    const asked = await cli.run(['terminate', id], { answers: ['no'] });
    expect(asked).toMatchObject({ code: 4 });
    expect(await statusOf(id)).toBe('running');
    const confirmed = await cli.run(['terminate', id], { answers: ['yes'] });
    expect(confirmed).toMatchObject({ code: 0, stdout: `${id}  terminated\n` });
    await cli.json(['terminate', id, '--yes']);
  });

  it('pause and resume change instances and definitions', async () => {
    const { id } = await startWaiting('pause');
    expect(await cli.run(['pause', id])).toMatchObject({ code: 0, stdout: `${id}  paused\n` });
    expect(await cli.json(['pause', id])).toMatchObject({ items: [{ paused: true }] });
    expect(await cli.run(['pause', id])).toMatchObject({ stdout: `${id}  paused already\n` });
    expect(await cli.run(['resume', id])).toMatchObject({ code: 0, stdout: `${id}  resumed\n` });
    expect(await cli.run(['resume', id])).toMatchObject({ code: 0, stdout: `${id}  not paused\n` });
    expect(await cli.json(['resume', id])).toMatchObject({ items: [{ paused: false }] });
    const definition = idOf('definition');
    expect(await cli.json(['pause', '--definition', definition])).toMatchObject({
      items: [{ definition, paused: true }],
    });
    expect((await cli.run(['resume', '--definition', definition])).stdout).toBe(
      `definition ${definition}  resumed\n`,
    );
    expect(await cli.run(['pause', 'nope'])).toMatchObject({ code: 3 });
    await startFailed('unpausable');
    expect(await cli.run(['pause', idOf('unpausable')])).toMatchObject({ code: 4 });
  });

  it('retry runs a failed instance again, and ends with 4 for a completed one', async () => {
    await startFailed('retry');
    const { code, stdout } = await cli.run(['retry', idOf('retry')]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/retried as execution 2, \d+ events? kept/);
    await opened.perdure.client.wait(idOf('retry'));
    await cli.json(['retry', idOf('retry'), '--from', 'start', '--input', '1']);
    const handle = await opened.perdure.client.start(hello, 1, { id: idOf('done') });
    await handle.result();
    const refused = await cli.run(['retry', handle.id]);
    expect(refused.code).toBe(4);
    expect(refused.stderr).toContain(`perdure show ${handle.id}`);
  });

  it('fork copies events to a new id', async () => {
    await startFailed('source');
    const id = idOf('fork');
    expect(await cli.json(['fork', idOf('source'), '--from', '2', '--id', id])).toEqual({ id });
    expect(await cli.run(['fork', idOf('source'), '--from', 'middle'])).toMatchObject({ code: 2 });
    expect((await cli.run(['fork', 'nope'])).code).toBe(3);
  });

  it('delete removes a tree, refuses a running one without --force, and a child', async () => {
    const handle = await opened.perdure.client.start(parent, undefined, { id: idOf('tree') });
    await expect.poll(() => statusOf(`${handle.id}-child`)).toBe('running');
    const running = await cli.run(['delete', handle.id, '--yes']);
    expect(running.code).toBe(4);
    const choice = kind === 'store' ? opened.store : opened.url;
    const next = `perdure terminate ${handle.id} --${kind} ${choice}\` first. Or pass --force`;
    expect(running.stderr).toContain(`perdure cancel --wait ${handle.id}`);
    expect(running.stderr).toContain(next);
    const json = await cli.run(['delete', handle.id, '--yes', '--json']);
    expect(json.json).toMatchObject({
      items: [{ error: { next: expect.stringContaining(next) } }],
    });
    expect((await cli.run(['delete', `${handle.id}-child`, '--yes'])).code).toBe(4);
    const { code, stdout } = await cli.run(['delete', handle.id, '--yes', '--force']);
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('deleted: 2 instances'),
    });
    expect(await statusOf(handle.id)).toBeUndefined();
    await startFailed('delete');
    expect(await cli.json(['delete', idOf('delete'), '--yes'])).toMatchObject({
      items: [{ instancesDeleted: 1 }],
    });
  });

  it('prune deletes finished executions, with a dry run', async () => {
    const handle = await opened.perdure.client.start(counting, 1, { id: idOf('counting') });
    await handle.result();
    const argv = ['prune', handle.id, '--keep-last', '1'];
    expect((await cli.run([...argv, '--dry-run'])).stdout).toContain('would prune: 2 executions');
    expect(await cli.json([...argv, '--yes'])).toMatchObject({
      items: [{ executionsDeleted: 2 }],
    });
    expect(await cli.run(['prune', handle.id, '--yes'])).toMatchObject({ code: 2 });
  });
});
