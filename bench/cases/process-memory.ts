import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Perdure } from 'perdure';
import { median, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions } from '../definitions.ts';
import { growthDefinitions, tenTimers } from '../growth-definitions.ts';
import { highestKey, multiplyRows } from '../multiply-rows.ts';
import { createPlainProgram } from '../plain-program.ts';
import { runProgram } from '../run-program.ts';
import { unsynced } from '../store-kind.ts';

/**
 * Measures the memory of worker processes: the peak with 2,000 and with 10,000 hellos, and an idle worker. The idle worker has
 * an empty store, or one with 100,000 sleeping instances of 10 timers each, which another process started.
 */
export async function processMemory(setup: BenchmarkSetup): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-memory-'));
  try {
    return await measureMemory(setup, createPlainProgram('memory-program', folder));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measureMemory({ store, quick }: BenchmarkSetup, program: string): Promise<Figures> {
  await (await Perdure.open(store)).close();
  const emptyMB: number[] = [];
  const measure = async (hellos: number): Promise<Figures> => {
    return await runProgram('The memory program', [program, store, String(hellos)]);
  };
  const rounds = quick ? 1 : 5;
  for (let round = 0; round < rounds; round += 1) {
    emptyMB.push((await measure(0))['rssMB'] ?? Number.NaN);
  }
  const hello2000: number[] = [];
  const hello10000: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    hello2000.push((await measure(2_000))['peakMB'] ?? Number.NaN);
    hello10000.push((await measure(quick ? 4_000 : 10_000))['peakMB'] ?? Number.NaN);
  }
  await createSleepers(store, quick ? 2_000 : 100_000);
  const sleepingMB: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    sleepingMB.push((await measure(0))['rssMB'] ?? Number.NaN);
  }
  return {
    hello2000PeakMB: median(hello2000),
    hello10000PeakMB: median(hello10000),
    emptyMB: median(emptyMB),
    sleepingMB: median(sleepingMB),
  };
}

async function createSleepers(store: string, count: number): Promise<void> {
  const above = await highestKey(store);
  const realCount = 1_000;
  {
    await using perdure = await Perdure.open(store, unsynced(store));
    const worker = await perdure.startWorker({
      orchestrations: [...definitions.orchestrations, ...growthDefinitions.orchestrations],
      activities: [...definitions.activities, ...growthDefinitions.activities],
    });
    await runInLanes(realCount, 64, async () => void (await perdure.client.start(tenTimers)));
    await worker.drain({ maxMs: 600_000 });
  }
  await multiplyRows(store, above, count / realCount - 1);
}
