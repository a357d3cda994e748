import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Command } from '../../src/cli/command.ts';
import { forEachInstance } from '../../src/cli/commands/steer/each-instance.ts';
import type { ReportedError } from '../../src/cli/exit-codes.ts';
import { failedSchema } from '../../src/cli/schemas.ts';
import type { BulkResult } from '../../src/management/bulk-call.ts';
import { counting, failing, openCliStore, waiting, type CliStore } from './helpers/cli-store.ts';
import { runCli } from './helpers/run-cli.ts';
import { cliOf, expectSchema, type TargetCli } from './helpers/targets.ts';

let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
});

afterAll(() => opened[Symbol.asyncDispose]());

async function startMany(count: number, tag: string, name = waiting.name): Promise<void> {
  const { client } = opened.perdure;
  const ids = Array.from({ length: count }, (_, index) => `${tag}-${index}`);
  await Promise.all(ids.map((id) => client.start(name, undefined, { id, tags: { batch: tag } })));
}

describe.each(['store', 'server'] as const)('over a %s', (kind) => {
  let cli: TargetCli;
  beforeAll(() => {
    cli = cliOf(opened, kind);
  });
  const tagOf = (name: string) => `${name}-${kind}`;
  const filterOf = (name: string) => ['--tag', `batch=${tagOf(name)}`];
  const countOf = async (name: string, status: 'running' | 'canceled' | 'terminated') => {
    const filter = { status, tags: { batch: tagOf(name) } };
    return (await opened.perdure.client.count(filter)).count;
  };

  it('a dry run counts by status and changes nothing', async () => {
    await startMany(3, tagOf('dry'));
    const { code, stdout, stderr } = await cli.run(['cancel', ...filterOf('dry'), '--dry-run']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toBe('3 instances match: 3 running. Nothing was changed.\n');
    expect(await cli.json(['cancel', ...filterOf('dry'), '--dry-run'])).toMatchObject({
      matched: 3,
      changed: 0,
      preview: { byStatus: { running: 3 } },
    });
    expect(await countOf('dry', 'running')).toBe(3);
  });

  it('cancel asks for a confirmation, and refuses without a terminal and --yes', async () => {
    await startMany(2, tagOf('ask'));
    const piped = await cli.run(['cancel', ...filterOf('ask')]);
    expect(piped).toMatchObject({ code: 4, stdout: '' });
    expect(piped.stderr).toMatch(/no terminal to ask[\s\S]*--yes/);
    const asked = await cli.run(['cancel', ...filterOf('ask')], { answers: ['yes'] });
    expect(asked.questions).toEqual(['Cancel 2 instances? Type yes to confirm: ']);
    expect(asked).toMatchObject({ code: 0, stdout: '2 instances canceled or canceling.\n' });
  });

  it('above 100 instances, the confirmation is the number', async () => {
    await startMany(101, tagOf('many'));
    const wrong = await cli.run(['cancel', ...filterOf('many')], { answers: ['yes'] });
    expect(wrong.questions).toEqual(['Cancel 101 instances? Type the number 101 to confirm: ']);
    expect(wrong.code).toBe(4);
    expect(await countOf('many', 'running')).toBe(101);
    const right = await cli.run(['cancel', ...filterOf('many')], { answers: ['101'] });
    expect(right.code).toBe(0);
  });

  it('pause, resume, terminate, delete, retry and prune act on a filter', async () => {
    await startMany(2, tagOf('each'));
    const filter = filterOf('each');
    const run = (command: string, ...more: string[]) =>
      cli.json<BulkResult>([command, ...filter, '--yes', ...more]);
    expect(await run('pause')).toMatchObject({ matched: 2, changed: 2, done: true });
    expect(await run('resume')).toMatchObject({ matched: 2, changed: 2 });
    expect(await run('terminate')).toMatchObject({ matched: 2, changed: 2 });
    expect(await countOf('each', 'terminated')).toBe(2);
    expect(await run('retry', '--from', 'start')).toMatchObject({ matched: 2, changed: 2 });
    expect(await run('terminate')).toMatchObject({ changed: 2 });
    expect(await run('prune', '--keep-last', '1')).toMatchObject({ matched: 2 });
    expect(await run('delete')).toMatchObject({ matched: 2, changed: 2 });
    expect(await cli.run(['delete', ...filter, '--yes'])).toMatchObject({
      code: 0,
      stderr: 'No instances match. Nothing was changed.\n',
    });
  });

  it('lists refusals and ends with 4', async () => {
    const id = tagOf('refused');
    const tags = { batch: tagOf('refusals') };
    const handle = await opened.perdure.client.start(counting, 3, { id, tags });
    await handle.result();
    const argv = ['cancel', ...filterOf('refusals'), '--status', 'completed', '--yes'];
    const { code, stdout, stderr } = await cli.run(argv);
    expect({ code, stdout }).toEqual({
      code: 4,
      stdout: '0 instances canceled or canceling, 1 refused.\n',
    });
    expect(stderr).toMatch(new RegExp(`^refused: ${id} .*INSTANCE_OVER`, 'm'));
    expect(await cli.json(argv, 4)).toMatchObject({ refused: [{ id, code: 'INSTANCE_OVER' }] });
  });

  it('Ctrl-C ends the operation, says how far it came, and --cursor continues it', async () => {
    // A part visits at most 1,000 instances. No worker has their code, so they start fast.
    const count = 1_100;
    await startMany(count, tagOf('long'), 'unregistered');
    const controller = new AbortController();
    const argv = ['cancel', ...filterOf('long'), '--yes', '--reason', "it's over"];
    // The bar is drawn after the first part.
    const stopped = await cli.run(argv, {
      columns: 80,
      signal: controller.signal,
      onMessage: (text) => {
        if (text.includes('canceling [')) controller.abort();
      },
    });
    expect(stopped.code).toBe(130);
    const [, visited, cursor] =
      /([\d,]+) instances? visited so far: [\d,]+ canceled or canceling, 0 refused\.\nContinue with: perdure cancel .*'it'\\''s over'.* --cursor (\S+)\n/.exec(
        stopped.stderr,
      ) ?? [];
    const visitedCount = Number(visited?.replace(',', ''));
    expect(visitedCount).toBeGreaterThan(0);
    expect(visitedCount).toBeLessThan(count);
    const rest = await cli.run([...argv, '--json', '--cursor', cursor ?? '']);
    expect(rest.code).toBe(0);
    expectSchema(['cancel'], rest.json);
    expect(rest.json).toMatchObject({ matched: count, changed: count, done: true });
    const audit = await opened.perdure.client.listAudit({ action: 'cancelBulk', limit: 1 });
    expect(audit.items).toMatchObject([{ instances: count, reason: "it's over" }]);
  });

  it('--max ends after a number of instances and says how to continue', async () => {
    await startMany(5, tagOf('max'));
    const { code, stderr } = await cli.run(['cancel', ...filterOf('max'), '--yes', '--max', '2']);
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /^2 instances visited so far[\s\S]*Continue with: perdure cancel .*--max 2 .*--cursor/,
    );
  });

  it('with --json, --max writes nothing to the standard error: the document has the cursor', async () => {
    await startMany(3, tagOf('max-json'));
    const argv = ['cancel', ...filterOf('max-json'), '--yes', '--max', '2'];
    const result = await cli.json<BulkResult>(argv);
    expect(result).toMatchObject({ matched: 2, done: false, cursor: expect.any(String) });
  });

  it('with --json, Ctrl-C writes one document to the standard error, with the command that continues', async () => {
    await startMany(3, tagOf('ctrl-json'));
    const argv = ['cancel', ...filterOf('ctrl-json'), '--yes', '--json'];
    const stopped = await cli.run(argv, { signal: AbortSignal.abort() });
    expect(stopped.code).toBe(130);
    const { error } = JSON.parse(stopped.stderr) as { error: ReportedError };
    expect(failedSchema.safeParse({ error }).success).toBe(true);
    expect(error).toMatchObject({ exitCode: 130, code: 'INTERRUPTED' });
    expect(error.message).toBe(
      'Interrupted. 0 instances visited so far: 0 canceled or canceling, 0 refused.',
    );
    const [, cursor = ''] =
      /^Continue with: perdure cancel .* --cursor (\S+)$/.exec(error.next ?? '') ?? [];
    expect(stopped.json).toMatchObject({ done: false, cursor });
    expect(await cli.json([...argv.slice(0, -1), '--cursor', cursor])).toMatchObject({
      changed: 3,
      done: true,
    });
  });

  it.each(['0', '-1', '1.5'])('rejects --max %s, also in a dry run', async (max) => {
    for (const more of ['--dry-run', '--yes']) {
      const argv = ['cancel', '--name', 'waiting', `--max=${max}`, more];
      expect(await cli.run(argv)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('use a whole number from 1'),
      });
    }
  });

  it('rejects ids with a filter, and neither of them', async () => {
    for (const command of ['cancel', 'terminate', 'retry', 'pause', 'resume', 'delete']) {
      expect(await cli.run([command, 'a', '--name', 'b'])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('not both'),
      });
      expect(await cli.run([command, 'a', '--dry-run'])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('--dry-run needs a filter'),
      });
      expect(await cli.run([command])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('No instance is chosen'),
      });
    }
  });
});

describe('a dry run and a confirmation', () => {
  it('--dry-run with --definition changes nothing', async () => {
    const cli = cliOf(opened, 'store');
    for (const command of ['pause', 'resume']) {
      for (const option of ['--dry-run', '--all', '--tree']) {
        const { code, stderr } = await cli.run([command, '--definition', 'sync', option]);
        expect({ code, stderr }).toMatchObject({
          code: 2,
          stderr: expect.stringContaining(option),
        });
      }
    }
    const queues = await opened.perdure.client.queues();
    expect(queues.filter(({ pause }) => pause !== undefined)).toEqual([]);
  });

  it('delete and --tree name the descendants, which the count leaves out', async () => {
    await startMany(1, 'reach', 'unregistered');
    const cli = cliOf(opened, 'store');
    const filter = ['--tag', 'batch=reach'];
    const dry = await cli.run(['terminate', ...filter, '--tree', '--dry-run']);
    expect(dry.stdout).toContain('Applies to their descendants, too. Nothing was changed.');
    const asked = await cli.run(['terminate', ...filter, '--tree'], { answers: ['yes'] });
    expect(asked.questions).toEqual([
      'Terminate 1 instance and all descendants? Type yes to confirm: ',
    ]);
    const deleted = await cli.run(['delete', ...filter, '--dry-run']);
    expect(deleted.stdout).toContain('Applies to their descendants, too.');
    const alone = await cli.run(['pause', '--tag', 'batch=dry-store', '--dry-run']);
    expect(alone.stdout).not.toContain('descendants');
  });

  it('two values of one tag are rejected', async () => {
    await startMany(1, 'second');
    const argv = ['cancel', '--tag', 'batch=first', '--tag', 'batch=second', '--yes'];
    expect((await cliOf(opened, 'store').run(argv)).code).toBe(2);
    expect((await opened.perdure.client.get('second-0'))?.cancel).toBeUndefined();
  });

  it('asks again if more instances match after the answer', async () => {
    await startMany(1, 'grows', 'unregistered');
    const { client } = opened.perdure;
    const later = { id: 'grows-later', tags: { batch: 'grows' } };
    const answers = ['yes', 'no'];
    // The second instance starts between the question and the answer.
    Object.defineProperty(answers, 0, {
      get: () => client.start('unregistered', undefined, later).then(() => 'yes'),
    });
    const cli = cliOf(opened, 'store');
    const { code, questions } = await cli.run(['cancel', '--tag', 'batch=grows'], { answers });
    expect({ code, questions }).toEqual({
      code: 4,
      questions: [
        'Cancel 1 instance? Type yes to confirm: ',
        'Cancel 2 instances? Type yes to confirm: ',
      ],
    });
    expect((await client.get('grows-0'))?.cancel).toBeUndefined();
  });
});

describe('an action on ids that Ctrl-C ends', () => {
  /** Runs an action on three ids. The signal arrives during the second one, which does not end. */
  const runInterrupted = (argv: readonly string[]) => {
    const controller = new AbortController();
    const apply = async (id: string): Promise<{ readonly status: string }> => {
      if (id === 'a') return { status: 'canceled' };
      controller.abort();
      return new Promise(() => undefined);
    };
    const command: Command = {
      name: 'act',
      group: 'steer',
      summary: 'Act',
      operands: [{ name: 'id', summary: 'Ids', many: true }],
      options: [],
      examples: [],
      needs: 'none',
      access: 'write',
      handlesInterrupt: true,
      load: async () => ({
        run: (call) =>
          forEachInstance(call, call.operands, { apply, text: ({ status }) => status }),
      }),
    };
    return runCli(['act', 'a', 'b', 'c', ...argv], {
      commands: [command],
      signal: controller.signal,
    });
  };

  it('prints the finished ids', async () => {
    expect(await runInterrupted([])).toMatchObject({
      code: 130,
      stdout: 'a  canceled\n',
      stderr: 'Interrupted.\n',
    });
  });

  it('with --json, prints the finished items, and one document to the standard error', async () => {
    const { code, json, stderr } = await runInterrupted(['--json']);
    expect(code).toBe(130);
    expect(json).toEqual({ items: [{ id: 'a', status: 'canceled' }] });
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'INTERRUPTED', exitCode: 130 } });
  });
});

describe('defaults of a filter', () => {
  it('retry selects roots that ended and did not complete; --status overrides it', async () => {
    const cli = cliOf(opened, 'store');
    const tags = { batch: 'defaults' };
    const failed = await opened.perdure.client.start(failing, undefined, { tags });
    await failed.result().catch(() => null);
    await (await opened.perdure.client.start(counting, 3, { tags })).result();
    const argv = ['retry', '--tag', 'batch=defaults', '--dry-run'];
    expect((await cli.run(argv)).stdout).toContain('1 instance matches: 1 failed.');
    expect((await cli.run([...argv, '--status', 'completed'])).stdout).toContain('1 completed.');
  });
});
