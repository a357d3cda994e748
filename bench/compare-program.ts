/** Runs builds in alternating slices in this process, and prints the costs of each slice as JSON. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as Package from 'perdure';
import { openBuild, type SliceCosts, type Workload } from './compare-workloads.ts';
import { readServerTicks, msPerTick } from './server-ticks.ts';

interface Setup {
  readonly workload: Workload;
  readonly slices: number;
  readonly builds: readonly (readonly [folder: string, store: string])[];
}

const { workload, slices, builds } = JSON.parse(process.argv[2] ?? '') as Setup;
const opened = await Promise.all(
  builds.map(async ([folder, store]) => {
    const url = pathToFileURL(join(folder, 'dist', 'index.js')).href;
    const build = (await import(url)) as typeof Package;
    return { store, ...(await openBuild(build, store)) };
  }),
);

async function measure(build: (typeof opened)[number]): Promise<SliceCosts> {
  globalThis.gc?.();
  const ticks = await readServerTicks(build.store);
  const cpu = process.cpuUsage();
  const begun = performance.now();
  await build.slice(workload);
  const wallMs = performance.now() - begun;
  const { user, system } = process.cpuUsage(cpu);
  const after = await readServerTicks(build.store);
  return {
    wallMs,
    processCpuMs: (user + system) / 1_000,
    ...(ticks !== undefined && after !== undefined && { serverCpuMs: (after - ticks) * msPerTick }),
  };
}

for (let n = 0; n < 3; n++) for (const build of opened) await measure(build);
const rounds: (readonly SliceCosts[])[] = [];
for (let n = 0; n < slices; n++) {
  // The order alternates, so that neither build always runs on what the other left behind.
  const order = n % 2 === 0 ? opened : opened.toReversed();
  const costs: SliceCosts[] = [];
  for (const build of order) costs.push(await measure(build));
  rounds.push(n % 2 === 0 ? costs : costs.toReversed());
}
for (const build of opened) await build.close();
process.stdout.write(JSON.stringify(rounds));
