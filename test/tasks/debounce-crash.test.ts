import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Perdure } from '../../src/index.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import type { DebounceProgramOptions } from './debounce-program.ts';

// `npm run crash:debounce` kills 100 times.
const kills = Number(process.env['PERDURE_DEBOUNCE_KILLS'] ?? 2);

interface Line {
  readonly kind: string;
  readonly key: string;
  readonly caller: string;
  readonly n: number;
  readonly id: string;
}

class Program {
  readonly #process;
  readonly #ready: Promise<unknown>;

  constructor(options: DebounceProgramOptions) {
    const program = join(import.meta.dirname, 'debounce-program.ts');
    this.#process = fork(program, [JSON.stringify(options)], {
      execArgv: [],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    });
    this.#ready = once(this.#process, 'message');
    onTestFinished(() => this.kill());
  }

  async ready(): Promise<this> {
    await this.#ready;
    return this;
  }

  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await exited;
  }
}

describe.each(['SQLite', 'PostgreSQL'] as const)('debounced starts and kills (%s)', (kind) => {
  test(
    'every acked input runs or is replaced by a later one; a key has one pending run',
    { timeout: 60_000 + kills * 5_000 },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'perdure-debounce-'));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const database = kind === 'PostgreSQL' ? await createDatabase() : undefined;
      onTestFinished(() => database?.drop());
      const store = database?.url ?? join(folder, 'debounce.db');
      const perdure = await Perdure.open(store);
      onTestFinished(() => perdure.close());
      const { client } = perdure;
      const ledger = join(folder, 'ledger.txt');
      const lines = (): readonly Line[] =>
        (existsSync(ledger) ? readFileSync(ledger, 'utf8') : '')
          .split('\n')
          .slice(0, -1)
          .map((line) => {
            const [one = '', key = '', caller = '', n = '', id = ''] = line.split(' ');
            return { kind: one, key, caller, n: Number(n), id };
          });
      const ran = () => lines().filter((line) => line.kind === 'ran');
      const acked = (key: string, caller: string) =>
        lines().filter((l) => l.kind === 'acked' && l.key === key && l.caller === caller);
      const files = { store, ledger };
      // Greater than the number of every request of an earlier process, sent or not.
      const caller = (name: string, round: number) => ({ name, from: round * 1_000_000 });
      let worker = await new Program(files).ready();
      const callers = new Map<string, Program>();
      for (const name of ['a', 'b']) {
        callers.set(name, await new Program({ ...files, caller: caller(name, 0) }).ready());
      }
      for (let round = 1; round <= kills; round += 1) {
        await delay(150 + ((round * 37) % 90));
        const { items } = await client.list({ status: ['pending'], name: 'index' });
        // A claimed run may still be listed: what has not started is at most one per key.
        const pending = await Promise.all(items.map(async ({ id }) => client.why(id)));
        const waiting = pending.flatMap(({ waits }) =>
          waits.flatMap((wait) => (wait.kind === 'debounced' ? wait.key : [])),
        );
        expect(new Set(waiting).size).toBe(waiting.length);
        if (round % 2 === 0) {
          await worker.kill();
          worker = await new Program(files).ready();
        } else {
          const name = round % 4 === 1 ? 'a' : 'b';
          await callers.get(name)?.kill();
          const next = new Program({ ...files, caller: caller(name, round) });
          callers.set(name, await next.ready());
        }
      }
      for (const program of callers.values()) await program.kill();
      await expect
        .poll(async () => (await client.list({ status: ['pending', 'running'] })).items.length, {
          timeout: 20_000,
          interval: 100,
        })
        .toBe(0);
      const outcomes = new Map(ran().map((line) => [line.id, line]));
      let checked = 0;
      for (const name of ['a', 'b']) {
        for (const { id, n } of acked(`own-${name}`, name)) {
          // The run that the caller got has run, with this input or a later one.
          expect(outcomes.get(id)?.n ?? -1).toBeGreaterThanOrEqual(n);
          checked += 1;
        }
        expect(acked('shared', name).every(({ id }) => outcomes.has(id))).toBe(true);
      }
      expect(checked).toBeGreaterThan(20);
      // The last run of the shared key has the last input of one of the callers.
      // One of the callers committed the newest input, which is its last one. A run of a killed worker runs again, so the
      // newest input need not be the last that ran.
      const isNewest = ({ key, caller, n }: Line) =>
        key === 'shared' && n >= (acked('shared', caller).at(-1)?.n ?? 0);
      expect(ran().some(isNewest)).toBe(true);
      expect(ran().length).toBeLessThan(checked * 2);
      const figures = JSON.stringify({ kills, acked: checked, runs: outcomes.size });
      if (kills > 4) process.stderr.write(`${kind} ${figures}\n`);
    },
  );
});
