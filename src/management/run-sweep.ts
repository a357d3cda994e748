import type { Clock } from '../model/clock.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { RetentionRules } from './retention-policy.ts';
import { readRetention, writeRetention, type RetentionReport } from './retention-records.ts';
import { sweep, type Interruption } from './sweep.ts';

/** A sweep by somebody. */
export interface SweepRun {
  readonly store: Provider;
  readonly clock: Clock;
  readonly rules: RetentionRules;
  readonly dryRun: boolean;
  readonly sweeper: string;
  readonly signal?: AbortSignal | undefined;
  readonly interrupted: () => Promise<Interruption | undefined>;
}

const fullWalkEveryMs = 24 * 3_600_000;

/** Sweeps once and makes the report of it. */
export async function runSweep(run: SweepRun): Promise<RetentionReport> {
  const { store, clock, rules, dryRun, sweeper, signal, interrupted } = run;
  const startedAt = clock.now();
  const fullWalkAt = await readRetention(store, 'fullWalkAt').catch(() => null);
  const fullWalk =
    fullWalkAt === null || startedAt >= fullWalkAt + fullWalkEveryMs || startedAt < fullWalkAt;
  const counts = await sweep(store, {
    rules,
    nowMs: startedAt,
    dryRun,
    actor: sweeper,
    fullWalk,
    signal,
    interrupted,
  });
  if (fullWalk && !dryRun && counts.outcome === 'done') {
    await writeRetention(store, 'fullWalkAt', startedAt);
  }
  return { startedAt, endedAt: clock.now(), sweeper, dryRun, ...counts };
}
