/**
 * `npm run sim`: runs seeds of the simulation.
 *
 * `--seeds 100000 --from 1` runs many, on all cores. `--seed 17 --trace` prints all steps of one. `--seed 17 --shrink`
 * prints the timeline of the smallest run that fails in the same way. `--hashes` prints the hash of each trace.
 * `--coverage` prints how many seeds reached each fault, program, operation and event.
 */
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { shrink, timeline } from './shrink.ts';
import { simulate } from './simulation.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '2000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    processes: { type: 'string' },
    trace: { type: 'boolean', default: false },
    shrink: { type: 'boolean', default: false },
    hashes: { type: 'boolean', default: false },
    coverage: { type: 'boolean', default: false },
    stride: { type: 'string' },
  },
});

interface Sums {
  seeds: number;
  failed: number;
  steps: number;
  commits: number;
  starts: number;
  virtualMs: number;
}

/** The sums of one process, and how many of its seeds reached each name. */
interface Part {
  readonly sums: Sums;
  readonly reached: readonly (readonly [string, number])[];
}

const usage =
  'Usage: npm run sim -- [--seeds <n>] [--from <n>] [--processes <n>] [--hashes] [--coverage], or --seed <n> [--trace | --shrink]';

function count(text: string | undefined, otherwise: number): number {
  const value = text === undefined ? otherwise : Number(text);
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(usage);
  return value;
}

/** Runs seeds in this process. Prints each failure, and the sums as JSON. */
async function runSeeds(from: number, seeds: number, stride: number): Promise<void> {
  const sums: Sums = { seeds: 0, failed: 0, steps: 0, commits: 0, starts: 0, virtualMs: 0 };
  const reached = new Map<string, number>();
  for (let seed = from; seed < from + seeds; seed += stride) {
    const report = await simulate({ seed });
    for (const name of report.reached) reached.set(name, (reached.get(name) ?? 0) + 1);
    sums.seeds += 1;
    sums.steps += report.steps;
    sums.commits += report.commits;
    sums.starts += report.starts;
    sums.virtualMs += report.virtualMs;
    if (values.hashes) console.log(`${seed} ${report.hash}`);
    if (report.violations.length === 0) continue;
    sums.failed += 1;
    console.log(`seed ${seed} failed: ${report.violations[0]}`);
  }
  const part: Part = { sums, reached: [...reached] };
  console.log(JSON.stringify(part));
}

// Most objects die with their seed: a larger young generation is collected less often.
const memory = ['--max-semi-space-size=64'];

/** Runs seeds in several processes. Prints failures as they happen. Returns the sums. */
async function runProcesses(from: number, seeds: number, processes: number): Promise<Sums> {
  const reached = new Map<string, number>();
  const total: Sums = { seeds: 0, failed: 0, steps: 0, commits: 0, starts: 0, virtualMs: 0 };
  const runs = Array.from({ length: processes }, async (_, index) => {
    const own = ['--from', `${from + index}`, '--seeds', `${Math.max(seeds - index, 0)}`];
    const args = [...own, '--stride', `${processes}`, ...(values.hashes ? ['--hashes'] : [])];
    const stdio: ['ignore', 'pipe', 'inherit'] = ['ignore', 'pipe', 'inherit'];
    const child = spawn(process.execPath, [...memory, import.meta.filename, ...args], { stdio });
    let hasEnded = false;
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.startsWith('{')) {
        console.log(line);
        continue;
      }
      hasEnded = true;
      const part = JSON.parse(line) as Part;
      const { sums } = part;
      for (const [name, count] of part.reached) reached.set(name, (reached.get(name) ?? 0) + count);
      for (const key of Object.keys(total) as (keyof Sums)[]) total[key] += sums[key];
    }
    if (!hasEnded) total.failed += 1;
  });
  await Promise.all(runs);
  if (values.coverage) {
    for (const [name, count] of [...reached].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      console.log(`reached ${name}: ${count}`);
    }
  }
  return total;
}

async function main(): Promise<boolean> {
  if (values.seed !== undefined) {
    const seed = count(values.seed, 1);
    if (values.shrink) {
      const { report, runs, decisionsBefore } = await shrink({ seed });
      const { length } = report.decisions;
      console.log(timeline(report).join('\n'));
      console.log(`Shrunk from ${decisionsBefore} to ${length} decisions in ${runs} runs:`);
      console.log(report.decisions.join(', '));
      return false;
    }
    const report = await simulate({ seed, keepTrace: true });
    console.log((values.trace ? report.trace : timeline(report)).join('\n'));
    console.log(JSON.stringify(report.weather));
    console.log(
      `seed ${seed}: ${report.violations.join('; ') || 'no violation'}; trace ${report.hash}`,
    );
    return report.violations.length === 0;
  }
  const from = count(values.from, 1);
  const seeds = count(values.seeds, 2_000);
  if (values.stride !== undefined) {
    await runSeeds(from, seeds, count(values.stride, 1));
    return true;
  }
  const processes = Math.max(1, count(values.processes, availableParallelism()));
  const begunAt = performance.now();
  const sums = await runProcesses(from, seeds, processes);
  const seconds = (performance.now() - begunAt) / 1_000;
  const perSeed = (sum: number): string => (sum / Math.max(sums.seeds, 1)).toFixed(0);
  console.log(
    `${sums.seeds} seeds in ${seconds.toFixed(1)} s (${(sums.seeds / seconds).toFixed(1)} per second), ${sums.failed} failed. ` +
      `Per seed: ${perSeed(sums.steps)} steps, ${perSeed(sums.commits)} commits, ${perSeed(sums.starts)} handler starts, ${perSeed(sums.virtualMs)} virtual ms.`,
  );
  return sums.failed === 0;
}

// Processes of earlier seeds may still reject.
process.on('unhandledRejection', () => undefined);
const passed = await main();
// exit() drops writes to a pipe that are pending.
await new Promise((resolve) => process.stdout.write('', resolve));
// Killed processes leave promises behind that never settle.
process.exit(passed ? 0 : 1);
