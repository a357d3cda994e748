import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { check, median, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { forkProgram } from '../fork-program.ts';

const variants = ['off', 'control', 'unsampled', 'spans', 'producer', 'meter'] as const;

/**
 * Measures hellos without telemetry (`off` and `control`), with spans of which none is sampled, with spans of which 10 % are,
 * and with these spans and a metric producer or instruments of the SDK. Each variant has a process and a store of its own. The
 * processes take turns in short slices, and a cost is the median of the ratios of adjacent slices.
 */
export async function telemetryOverhead({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const programs: ChildProcess[] = [];
  try {
    for (const variant of variants)
      programs.push(await forkProgram('telemetry-program.ts', [store, variant]));
    const seconds: number[][] = variants.map(() => []);
    const exported = variants.map(() => 0);
    const [rounds, count] = quick ? [10, 300] : [60, 600];
    const slice = async (index: number, hellos: number): Promise<number> => {
      const program = programs[index] as ChildProcess;
      const response = once(program, 'message') as Promise<
        [{ readonly seconds: number; readonly exported: number }]
      >;
      program.send(hellos);
      const [result] = await response;
      exported[index] = result.exported;
      return result.seconds;
    };
    for (let round = 0; round < (quick ? 2 : 8); round += 1) {
      for (const index of variants.keys()) await slice(index, quick ? 1_000 : 2_500);
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const step of variants.keys()) {
        // Rotates the order, so that no variant always comes first.
        const index = (round + step) % variants.length;
        seconds[index]?.push(await slice(index, count));
      }
    }
    check((exported[variants.indexOf('producer')] ?? 0) > 0, 'spans were exported');
    const of = (variant: (typeof variants)[number]): readonly number[] =>
      seconds[variants.indexOf(variant)] ?? [];
    const costOf = (variant: (typeof variants)[number]): number =>
      median(of(variant).map((taken, index) => taken / (of('off')[index] ?? Number.NaN))) - 1;
    return {
      offPerSecond: count / median(of('off')),
      onPerSecond: count / median(of('producer')),
      controlCost: costOf('control'),
      unsampledCost: costOf('unsampled'),
      spansCost: costOf('spans'),
      cost: costOf('producer'),
      meterCost: costOf('meter'),
      exportedSpans: exported[variants.indexOf('producer')] ?? 0,
    };
  } finally {
    await Promise.all(
      programs.map(async (program) => {
        const exited = once(program, 'exit');
        program.disconnect();
        await exited;
      }),
    );
  }
}
