import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, type StreamedChunk, type StreamEntry } from '../../src/index.ts';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';

const rounds = process.env['MODE'] === 'streams' ? 20 : 1;
const count = 120;

interface Emitted {
  readonly n: number;
  readonly pid: number;
}

type StoreKind = 'SQLite' | 'PostgreSQL';

async function createStore(kind: StoreKind): Promise<string> {
  if (kind === 'PostgreSQL') {
    const database = await createMigratedDatabase();
    onTestFinished(() => database.drop());
    return database.url;
  }
  const folder = await mkdtemp(join(tmpdir(), 'perdure-streams-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'store.db');
}

async function startWorker(store: string): Promise<ChildProcess> {
  const child = fork(new URL('./programs/emitting-worker.ts', import.meta.url), [store]);
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  });
  await once(child, 'message');
  return child;
}

/** Starts a run, and reads until it has emitted some chunks. */
async function readSome(
  reader: AsyncGenerator<StreamEntry<Emitted>, void, undefined>,
  chunks: StreamedChunk<Emitted>[],
): Promise<void> {
  while (chunks.length < 20) {
    const { value } = await reader.next();
    if (value?.kind === 'chunk') chunks.push(value);
  }
}

const numbersOf = (chunks: readonly StreamedChunk<Emitted>[]) => chunks.map(({ value }) => value.n);

describe.each(['SQLite', 'PostgreSQL'] as const)('emits of a lost claim (%s)', (kind) => {
  // SIGKILL ends the worker within an emit. SIGSTOP holds it until another worker has its work.
  it.each([
    ['SIGKILL', 'task'],
    ['SIGSTOP', 'task'],
    ['SIGKILL', 'step'],
    ['SIGSTOP', 'step'],
  ] as const)(
    'a worker with %s writes no chunks of a %s after the next one has claimed its work',
    async (signal, emitter) => {
      const store = await createStore(kind);
      const perdure = await Perdure.open(store);
      onTestFinished(() => perdure.close());
      for (let round = 0; round < rounds; round += 1) {
        const first = await startWorker(store);
        const { client } = perdure;
        const { id } =
          emitter === 'task'
            ? await client.runTask('numbers', count)
            : await client.start('numbersOfStep', count);
        const reader = client.stream<Emitted>(id);
        const chunks: StreamedChunk<Emitted>[] = [];
        const idle = once(first, 'message');
        await readSome(reader, chunks);
        if (signal === 'SIGSTOP') await idle;
        first.kill(signal);
        const second = await startWorker(store);
        let isContinued = false;
        for await (const entry of reader) {
          if (entry.kind !== 'chunk') continue;
          chunks.push(entry);
          if (entry.value.pid === first.pid || isContinued) continue;
          // It emits again, with a claim that it has lost.
          first.kill('SIGCONT');
          isContinued = true;
        }
        await client.wait(id);
        const ofFirst = chunks.filter(({ value }) => value.pid === first.pid);
        const ofSecond = chunks.filter(({ value }) => value.pid === second.pid);
        expect(chunks).toEqual([...ofFirst, ...ofSecond]);
        expect(numbersOf(ofFirst)).toEqual(ofFirst.map((_, n) => n));
        expect(numbersOf(ofSecond)).toEqual(Array.from({ length: count }, (_, n) => n));
        expect(new Set(chunks.map(({ source }) => source.handler?.runId)).size).toBe(2);
        for (const child of [first, second]) child.kill('SIGKILL');
      }
    },
    30_000 * rounds,
  );
});
