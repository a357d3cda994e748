import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCliStore, type CliStore } from './helpers/cli-store.ts';
import { cliOf, type TargetCli } from './helpers/targets.ts';

let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
});

afterAll(() => opened[Symbol.asyncDispose]());

interface Started {
  readonly id: string;
  readonly created?: boolean;
}

describe.each(['store', 'server'] as const)('over a %s', (target) => {
  let cli: TargetCli;
  beforeAll(() => {
    cli = cliOf(opened, target);
  });

  describe.each([
    { kind: 'task', flags: ['--task'], ends: 'sync' },
    { kind: 'orchestration', flags: [], ends: 'hello' },
  ] as const)('start ($kind)', ({ kind, flags, ends }) => {
    // No worker has it, so its runs wait.
    const parked = `parked-${target}-${kind}`;
    const ids = async (name: string): Promise<readonly string[]> =>
      (await opened.perdure.client.list({ name })).items.map(({ id }) => id);
    /** Starts a run, and returns its id and, of a task, whether it was created. */
    const start = async (
      name: string,
      input: string,
      options: readonly string[],
    ): Promise<Started> => {
      const result = await cli.run(['start', name, input, ...flags, ...options, '--json']);
      expect(result).toMatchObject({ code: 0 });
      return result.json as Started;
    };

    const existing = ({ id }: Started): Started => ({ id, created: false });

    it('--key and --weight give the run a key and its share', async () => {
      const { limits } = opened.perdure.client;
      const limited = { kind, name: kind === 'task' ? parked : 'waiting' };
      await limits.set(limited, { concurrency: { global: 1 } });
      const [acme, globex] = [`acme-${target}`, `globex-${target}`];
      await start(limited.name, '1', ['--key', acme, '--weight', '3']);
      await start(limited.name, '2', ['--key', globex]);
      const keys = async (): Promise<readonly string[]> => {
        const { items } = await limits.keys(limited);
        return items.map(({ key, weight, running, waiting }) =>
          [key, weight, running + waiting].join(' '),
        );
      };
      const expected = [`${acme} 3 1`, `${globex} 1 1`];
      await expect.poll(keys).toEqual(expect.arrayContaining(expected));
    });

    it('--dedupe-key returns the active run', async () => {
      const name = `${parked}-dedupe`;
      const first = await start(name, '1', ['--dedupe-key', 'a']);
      expect(await start(name, '2', ['--dedupe-key', 'a'])).toEqual(existing(first));
      const other = await start(name, '3', ['--dedupe-key', 'b']);
      expect((await ids(name)).toSorted()).toEqual([first.id, other.id].toSorted());
      expect(await opened.perdure.client.get(first.id)).toMatchObject({ input: 1 });
    });

    it('--dedupe-for returns the run after its end', async () => {
      const key = `ended-${target}`;
      const first = await start(ends, '1', ['--dedupe-key', key, '--dedupe-for', '1h']);
      await opened.perdure.client.wait(first.id);
      const again = await start(ends, '2', ['--dedupe-key', key, '--dedupe-for', '1h']);
      expect(again).toEqual(existing(first));
      const { id } = await start(ends, '3', ['--dedupe-key', key]);
      expect(id).not.toBe(first.id);
    });

    it('--debounce-key moves the waiting run and replaces its input', async () => {
      const name = `${parked}-debounce`;
      const keys = ['--debounce-key', 'doc', '--debounce-wait'];
      const first = await start(name, '1', [...keys, '1h']);
      const again = await start(name, '2', [...keys, '2h']);
      expect(again).toEqual(existing(first));
      const waitOf = async (): Promise<number> => {
        const { runAt = 0, createdAt = 0 } = (await opened.perdure.client.get(first.id)) ?? {};
        return runAt - createdAt;
      };
      const hour = 3_600_000;
      expect(await opened.perdure.client.get(first.id)).toMatchObject({ input: 2 });
      expect(await waitOf()).toBeGreaterThan(2 * hour);
      await start(name, '3', [...keys, '2h', '--debounce-max-wait', '2h']);
      expect(await opened.perdure.client.get(first.id)).toMatchObject({ input: 3 });
      expect(await waitOf()).toBe(2 * hour);
      expect(await ids(name)).toEqual([first.id]);
    });

    it.each([
      [['--dedupe-for', '1h'], '--dedupe-for needs --dedupe-key.'],
      [['--debounce-key', 'a'], '--debounce-key needs --debounce-wait.'],
      [['--debounce-wait', '1s'], '--debounce-wait and --debounce-max-wait need --debounce-key.'],
      [
        ['--debounce-max-wait', '1s'],
        '--debounce-wait and --debounce-max-wait need --debounce-key.',
      ],
      [['--key', ''], 'key'],
      [['--key', 'a', '--weight', '101'], 'weight'],
      [['--key', 'a', '--weight', '0'], 'weight'],
      [['--dedupe-key', 'a', '--debounce-key', 'a', '--debounce-wait', '1s'], 'debounce'],
    ])('%j ends with 2 and starts nothing', async (options, message) => {
      const name = `${parked}-invalid`;
      const { code, stdout, stderr } = await cli.run(['start', name, '1', ...flags, ...options]);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(message);
      expect(await ids(name)).toEqual([]);
    });
  });
});
