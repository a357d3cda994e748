import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  counting,
  failing,
  hello,
  openCliStore,
  parent,
  pipeline,
  sync,
  talk,
  waiting,
  type CliStore,
} from './helpers/cli-store.ts';
import { cliOf, expectSchema, type TargetCli } from './helpers/targets.ts';
import { runCli } from './helpers/run-cli.ts';

let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
  const { client } = opened.perdure;
  await (await client.start(hello, 'Ada', { id: 'hello-1', tags: { customer: 'ada' } })).result();
  await (await client.start(failing, undefined, { id: 'failing-1' })).result().catch(() => null);
  await client.start(waiting, undefined, { id: 'waiting-1' });
  await client.start(parent, undefined, { id: 'parent-1' });
  await (await client.start(counting, 1, { id: 'counting-1' })).result();
  await (await client.runTask(sync, { tenant: 7 }, { id: 'sync-1', priority: 5 })).result();
  await (await client.runFlow(pipeline, undefined, { id: 'pipeline-1' })).result();
  await client.start('unknown', undefined, { id: 'unknown-1' });
  await vi.waitUntil(async () => (await client.get('parent-1-child'))?.status === 'running');
});

afterAll(() => opened[Symbol.asyncDispose]());

describe.each(['store', 'server'] as const)('over a %s', (kind) => {
  let cli: TargetCli;
  beforeAll(() => {
    cli = cliOf(opened, kind);
  });

  it('list prints a table with id, name and status, without ANSI and tabs', async () => {
    const { code, stdout, stderr } = await cli.run(['list']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n')[0]).toMatch(/^ID +NAME +STATUS +AGE +TOOK +NOTE$/);
    expect(stdout).toMatch(/^hello-1 +hello +completed .*customer=ada$/m);
    expect(stdout).toMatch(/^failing-1 +failing +failed .*card declined/m);
    for (const control of ['\u001B', '\t']) expect(stdout).not.toContain(control);
  });

  it('list filters by status, name, tag and time, and pages with --cursor', async () => {
    const ids = async (...argv: string[]) => {
      const page = await cli.json<{ items: { id: string }[]; nextCursor?: string }>([
        'list',
        ...argv,
      ]);
      return { ids: page.items.map(({ id }) => id), nextCursor: page.nextCursor };
    };
    expect((await ids('--status', 'failed')).ids).toEqual(['failing-1']);
    expect((await ids('--name', 'hello', '--name', 'counting')).ids).toEqual([
      'counting-1',
      'hello-1',
    ]);
    expect((await ids('--tag', 'customer=ada')).ids).toEqual(['hello-1']);
    expect((await ids('--kind', 'task')).ids).toEqual(['sync-1']);
    expect((await ids('--kind', 'flow')).ids).toEqual(['pipeline-1']);
    expect((await ids('--created-before', '1h')).ids).toEqual([]);
    expect((await ids('--parent', 'parent-1')).ids).toEqual(['parent-1-child']);
    expect((await ids('--failure-code', 'CARD_DECLINED')).ids).toEqual([]);
    const first = await ids('--limit', '2', '--roots');
    expect(first.ids).toHaveLength(2);
    const second = await ids('--limit', '2', '--roots', '--cursor', first.nextCursor ?? '');
    expect(second.ids).toHaveLength(2);
    expect(first.ids).not.toContain(second.ids[0]);
  });

  it('list says how to continue after a page, on the standard error', async () => {
    const { stdout, stderr } = await cli.run(['list', '-n', '1']);
    expect(stdout.trim().split('\n')).toHaveLength(2);
    expect(stderr).toMatch(/^1 instance shown\. Continue with --cursor \w+\.$/m);
  });

  it('list --count prints the number', async () => {
    const { stdout } = await cli.run(['list', '--count', '--status', 'failed']);
    expect(stdout).toBe('1\n');
    expect(await cli.json(['list', '--count'])).toMatchObject({ capped: false });
  });

  it('list without a match prints nothing to the standard output and ends with 0', async () => {
    expect(await cli.run(['list', '--name', 'nothing'])).toMatchObject({
      code: 0,
      stdout: '',
      stderr: 'No instances match.\n',
    });
  });

  it('show prints the fields of an instance, and why it waits', async () => {
    const { stdout } = await cli.run(['show', 'waiting-1']);
    expect(stdout).toMatch(/^waiting-1 {2}running$/m);
    expect(stdout).toMatch(/^name +waiting v1$/m);
    expect(stdout).toMatch(/^why +Waits for event `go`$/m);
    expect(await cli.json(['show', 'hello-1'])).toMatchObject({ output: 'Ada', input: 'Ada' });
    // The stack is that of the activity: the one of the outer error is of Perdure.
    const failed = await cli.run(['show', 'failing-1']);
    expect(failed.stdout).toMatch(/^failure +FailedError: .*\n +caused by Error: card declined/m);
    if (kind === 'store') expect(failed.stdout).toMatch(/\n +at .*cli-store\.ts/);
  });

  it('show and why of a flow run name the flow, and show its input without the graph', async () => {
    const { stdout } = await cli.run(['show', 'pipeline-1']);
    expect(stdout).toMatch(/^name +pipeline$/m);
    expect(stdout).toMatch(/^kind +flow$/m);
    expect(stdout).not.toContain('"steps"');
    expect((await cli.run(['why', 'pipeline-1'])).stdout).toContain('pipeline  completed');
  });

  it('show, why, state, history, tree, watch, result and export of an unknown id end with 3', async () => {
    for (const command of [
      'show',
      'why',
      'state',
      'history',
      'tree',
      'watch',
      'stream',
      'result',
      'export',
    ]) {
      const { code, stderr, stdout } = await cli.run([command, 'nope']);
      expect({ command, code, stdout }).toEqual({ command, code: 3, stdout: '' });
      expect(stderr).toMatch(/"nope" does not exist[\s\S]*perdure list/);
    }
  });

  it('why explains a wait with the state and its duration', async () => {
    const { stdout } = await cli.run(['why', 'waiting-1']);
    expect(stdout).toMatch(/^waiting-1 {2}waiting v1 {2}running for \d+m?s/);
    expect(stdout).toContain('Waiting for event `go`.');
    expect(await cli.json(['why', 'failing-1'])).toMatchObject({ status: 'failed' });
  });

  it('state lists keys and values, and prints one value as JSON', async () => {
    const { stdout } = await cli.run(['state', 'counting-1']);
    expect(stdout.trim().split('\n')).toEqual([
      expect.stringMatching(/^KEY +VERSION +VALUE$/),
      expect.stringMatching(/^note +4 +"a\\u001b\[31mb"$/),
      expect.stringMatching(/^page +3 +\{"n":3\}$/),
    ]);
    expect(await cli.run(['state', 'counting-1', 'page'])).toMatchObject({
      code: 0,
      stdout: '{"n":3}\n',
    });
    expect(await cli.json(['state', 'counting-1', 'page'])).toEqual({
      items: [{ key: 'page', value: { n: 3 }, version: 3 }],
    });
    const missing = await cli.run(['state', 'counting-1', 'nothing']);
    expect(missing).toMatchObject({ code: 3, stdout: '' });
    expect(missing.stderr).toContain('perdure state counting-1');
    expect(await cli.run(['state', 'hello-1'])).toMatchObject({ code: 0, stdout: '' });
  });

  it('history lists events, filtered and newest first', async () => {
    const { stdout } = await cli.run(['history', 'hello-1']);
    expect(stdout).toMatch(/1 .* executionStarted .* hello {2}"Ada"/);
    expect(stdout).toMatch(/activityScheduled +1 +echo/);
    const page = await cli.json<{ items: { id: number; event: { kind: string } }[] }>([
      'history',
      'hello-1',
      '--newest',
      '--event',
      'activityScheduled',
      '--event',
      'executionCompleted',
    ]);
    expect(page.items.map(({ event }) => event.kind)).toEqual([
      'executionCompleted',
      'activityScheduled',
    ]);
    const { stderr } = await cli.run(['history', 'hello-1', '--limit', '1']);
    expect(stderr).toContain('Continue with --after 1.');
    const wrong = ['history', 'hello-1', '--event', 'timerFired', '--event', 'activtyFailed'];
    expect(await cli.run(wrong)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('"activtyFailed"'),
    });
  });

  it('tree indents descendants', async () => {
    const { stdout } = await cli.run(['tree', 'parent-1']);
    expect(stdout).toMatch(/^parent-1 +parent +running/m);
    expect(stdout).toMatch(/^ {2}parent-1-child +waiting +running/m);
    const { items } = await cli.json<{ items: unknown[] }>(['tree', 'parent-1', '--depth', '0']);
    expect(items).toHaveLength(1);
  });

  it('watch prints the events of an ended instance, and its exit code says how it ended', async () => {
    const done = await cli.run(['watch', 'hello-1']);
    expect(done.code).toBe(0);
    expect(done.stdout).toMatch(/^1\.1 .* executionStarted {2}hello/);
    expect(done.stdout.trim().split('\n').at(-1)).toContain('executionCompleted');
    const failed = await cli.run(['watch', 'failing-1', '--json']);
    expect(failed.code).toBe(7);
    for (const line of failed.stdout.trim().split('\n')) {
      expectSchema(['watch'], JSON.parse(line));
    }
  });

  it('stream prints the chunks of a run, continues after a cursor, and --raw prints values', async () => {
    const { client } = opened.perdure;
    const id = `talk-${kind}`;
    const run = await client.runTask(talk, ['Hello, ', 'Wor\u001Bld!\n', { n: 1 }], { id });
    const live = cli.run(['stream', id]);
    await run.result();
    const { code, stdout } = await live;
    expect(code).toBe(0);
    const lines = stdout.trim().split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^1\.[0-9a-z]+ {2}.* {2}talk #1 {2}"Hello, "$/);
    const [cursor = ''] = (lines[1] ?? '').split(' ');
    const rest = await cli.run(['stream', id, '--after', cursor, '--json']);
    expect(rest.stdout.trim().split('\n')).toHaveLength(1);
    expectSchema(['stream'], JSON.parse(rest.stdout));
    expect(JSON.parse(rest.stdout)).toMatchObject({ kind: 'chunk', value: { n: 1 } });
    const raw = await cli.run(['stream', id, '--raw']);
    expect(raw.stdout).toBe('Hello, Wor\u001Bld!\n{"n":1}\n');
    expect((await cli.run(['stream', id, '--after', 'x'])).code).toBe(2);
    expect((await cli.run(['stream', id, '--after', '9.zz'])).code).toBe(4);
    await client.deleteInstance(id);
  });

  it('watch of a task run prints its states, and why it failed', async () => {
    expect(await cli.run(['watch', 'sync-1'])).toMatchObject({
      code: 0,
      stdout: 'sync-1  completed\n',
    });
    const id = `late-${kind}`;
    await opened.perdure.client.runTask(sync, 1, { id, delay: '1h' });
    const watching = cli.run(['watch', id]);
    await opened.perdure.client.terminate(id, { reason: 'too late' });
    expect(await watching).toMatchObject({ code: 7, stderr: expect.stringContaining('too late') });
    await opened.perdure.client.deleteInstance(id);
    expect(await cli.run(['watch', 'sync-1', '--after', '1.1'])).toMatchObject({ code: 2 });
  });

  it('watch of several ids prints their states until all have ended', async () => {
    const { code, stdout } = await cli.run(['watch', 'hello-1', 'failing-1', '--json']);
    expect(code).toBe(7);
    const lines = stdout.trim().split('\n');
    for (const line of lines) expectSchema(['watch'], JSON.parse(line));
    expect(lines).toHaveLength(2);
    expect((await cli.run(['watch', 'hello-1', 'nope'])).code).toBe(3);
  });

  it('watch follows a live instance until it ends', async () => {
    const id = `watched-${kind}`;
    await opened.perdure.client.start(waiting, undefined, { id });
    const watching = cli.run(['watch', id]);
    await delay(50);
    await opened.perdure.client.raiseEvent(id, 'go', 1);
    const { code, stdout } = await watching;
    expect(code).toBe(0);
    expect(stdout).toMatch(/eventReceived {2}go {2}1/);
  });

  it('watch ends with 130 on Ctrl-C', async () => {
    const controller = new AbortController();
    const watching = cli.run(['watch', 'waiting-1'], { signal: controller.signal });
    setTimeout(() => controller.abort(), 100);
    expect(await watching).toMatchObject({ code: 130, stderr: 'Interrupted.\n' });
  });

  it('result prints the output, ends with 7 for a failure and with 6 after a timeout', async () => {
    expect(await cli.run(['result', 'hello-1'])).toMatchObject({ code: 0, stdout: '"Ada"\n' });
    const failed = await cli.run(['result', 'failing-1']);
    expect(failed).toMatchObject({ code: 7, stdout: '' });
    expect(failed.stderr).toMatch(/ended as failed[\s\S]*perdure retry failing-1/);
    expect(await cli.json(['result', 'failing-1'], 7)).toMatchObject({ status: 'failed' });
    const late = await cli.run(['result', 'waiting-1', '--timeout', '20ms']);
    expect(late.code).toBe(6);
    expect(late.stderr).toMatch(/Run `perdure why waiting-1 --(store|server) \S+/);
  });

  it('queues, workers, tasks and flows show what the worker has and what has run', async () => {
    expect((await cli.run(['queues'])).stdout).toMatch(/^hello +orchestration +0/m);
    await cli.json(['queues']);
    expect((await cli.run(['workers'])).stdout).toMatch(/^cli-worker +live/m);
    const { items } = await cli.json<{ items: { name: string }[] }>(['workers']);
    expect(items).toMatchObject([{ name: 'cli-worker' }]);
    expect((await cli.run(['tasks'])).stdout).toMatch(/^sync +0 +0 +1/m);
    expect(await cli.json(['tasks'])).toMatchObject({ items: [{ name: 'sync' }] });
    expect((await cli.run(['flows'])).stdout).toMatch(/^pipeline +0 +0 +1/m);
    expect(await cli.json(['flows'])).toMatchObject({ items: [{ name: 'pipeline' }] });
  });

  it('export writes the history to the standard output or to a file, and replay compares it', async () => {
    await cli.json(['export', 'hello-1']);
    const file = join(opened.directory, `hello-${kind}.json`);
    expect(await cli.json(['export', 'hello-1', '--out', file])).toEqual({ path: file, events: 4 });
    expectSchema(['export'], JSON.parse(readFileSync(file, 'utf8')));
    const code = join(import.meta.dirname, 'helpers/cli-store.ts');
    const agreed = await runCli(['replay', file, '--code', code]);
    expect(agreed).toMatchObject({
      code: 0,
      stdout: 'The code agrees with the 4 events of "hello-1".\n',
    });
    const json = await runCli(['replay', '-', '--code', code, '--json'], {
      stdin: readFileSync(file, 'utf8'),
    });
    expect(json.json).toEqual({ ok: true, events: 4 });
    expectSchema(['replay'], json.json);
  });
});

describe('replay', () => {
  const code = join(import.meta.dirname, 'helpers/cli-store.ts');

  it('ends with 1 and names the event if code and history disagree', async () => {
    const history = await opened.perdure.client.exportHistory('hello-1');
    const file = join(opened.directory, 'changed.json');
    const events = history.events.map((event) =>
      event.kind === 'activityScheduled' ? { ...event, name: 'other' } : event,
    );
    writeFileSync(file, JSON.stringify({ ...history, events }));
    const { code: exit, stderr } = await runCli(['replay', file, '--code', code]);
    expect(exit).toBe(1);
    expect(stderr).toContain('disagree at event 2');
    const json = await runCli(['replay', file, '--code', code, '--json']);
    expect(json.code).toBe(1);
    expectSchema(['replay'], json.json);
  });

  it('ends with 2 for files that cannot be read, are no history, or export no such orchestration', async () => {
    const file = join(opened.directory, 'other.json');
    const replay = (...argv: string[]) => runCli(['replay', ...argv], { cwd: opened.directory });
    expect(await replay('missing.json', '--code', code)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('the file does not exist'),
    });
    writeFileSync(file, '{"events": 1}');
    expect(await replay('other.json', '--code', code)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is not an exported history'),
    });
    expect(await replay('other.json')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Missing --code'),
    });
    const history = await opened.perdure.client.exportHistory('hello-1');
    const [first, ...rest] = history.events;
    writeFileSync(
      file,
      JSON.stringify({ ...history, events: [{ ...first, name: 'helo' }, ...rest] }),
    );
    expect(await replay('other.json', '--code', code)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Did you mean "hello"?'),
    });
    expect(await replay('other.json', '--code', 'missing.ts')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Cannot load'),
    });
  });
});
