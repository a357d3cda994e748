import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { Perdure } from 'perdure';
import { check, median, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, hello } from '../definitions.ts';

const program = join(import.meta.dirname, '..', '..', 'dist', 'cli', 'main.js');
const instances = 1_000;

/** Milliseconds of `perdure list` in a new process, and of an empty program. */
export async function coldList({ store, quick }: BenchmarkSetup): Promise<Figures> {
  {
    await using perdure = await Perdure.open(store);
    await perdure.startWorker(definitions);
    await runInLanes(instances, 64, async () => {
      await (await perdure.client.start(hello, 'World')).result();
    });
  }
  const rounds = quick ? 5 : 15;
  const empty: number[] = [];
  const list: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    empty.push(run(['--eval', '']));
    list.push(run([program, 'list', '--store', store], 'completed'));
  }
  return { emptyMs: median(empty), listMs: median(list), slowestListMs: Math.max(...list) };
}

function run(args: readonly string[], expected = ''): number {
  const startedAt = performance.now();
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  const ms = performance.now() - startedAt;
  check(status === 0 && stdout.includes(expected), args.join(' '));
  return ms;
}
