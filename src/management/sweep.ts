import type { Clock } from '../model/clock.ts';
import { ProviderError } from '../model/failures/errors.ts';
import { instanceStatuses } from '../model/status.ts';
import { hasTags } from './instance-filter.ts';
import type { ScannedInstance } from '../providers/contract/management.ts';
import type { Provider } from '../providers/contract/provider.ts';
import {
  addDeleted,
  deleteSelected,
  nothingDeleted,
  type SelectedDeletion,
} from './delete-selected.ts';
import { newAuditEntry } from './management-options.ts';
import { Pacer, reclaim } from './pacer.ts';
import { addPruned, nothingPruned, pruneSelected, type SelectedPrune } from './prune-selected.ts';
import type { InstanceRule, RetentionRules } from './retention-policy.ts';
import { readRetention, writeRetention, type RetentionReport } from './retention-records.ts';

/** The parameters of a sweep. */
interface SweepParams {
  readonly rules: RetentionRules;
  /** The current time for the ages of instances. */
  readonly nowMs: number;
  readonly dryRun: boolean;
  readonly actor: string;
  /** Also scans instances that were created too recently to be due, in case a clock was wrong. */
  readonly fullWalk: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Called before each transaction. Returns why to end early, or `undefined` to continue. */
  readonly interrupted: () => Promise<Interruption | undefined>;
}

/** Why a sweep ends early. */
export type Interruption = 'paused' | 'lostLease';

type SweepCounts = Pick<RetentionReport, 'outcome' | 'deleted' | 'pruned' | 'left' | 'errors'>;

/** Thrown to end a sweep early. */
class Interrupted extends Error {
  readonly why: Interruption;

  constructor(why: Interruption) {
    super(why);
    this.why = why;
  }
}

const unlimited = Number.MAX_SAFE_INTEGER;

/** Applies the policies to the whole store once. Never rejects: errors are in the result. */
async function sweep(store: Provider, params: SweepParams): Promise<SweepCounts> {
  const { rules, dryRun, actor, signal } = params;
  const sum = { deleted: nothingDeleted, pruned: nothingPruned, left: 0 };
  const audit = newAuditEntry('retention', actor, shapeOf(rules));
  const pacer = new Pacer(signal, async () => {
    const why = await params.interrupted();
    if (why !== undefined) throw new Interrupted(why);
  });
  const common = { dryRun, audit, pacer, limit: unlimited };
  const finish = (outcome: SweepCounts['outcome'], errors: readonly string[]): SweepCounts => ({
    ...sum,
    outcome,
    errors,
  });
  try {
    await deleteDue(store, params, {
      ...common,
      onStep: ({ counts, rootsSkipped }) => {
        sum.deleted = addDeleted(sum.deleted, counts);
        sum.left += rootsSkipped;
      },
    });
    await pruneDue(store, params, {
      ...common,
      onStep: (result) => {
        sum.pruned = addPruned(sum.pruned, result);
      },
    });
    if (!dryRun) await reclaim(store, pacer);
    return finish('done', []);
  } catch (error) {
    if (error instanceof Interrupted) return finish(error.why, []);
    if (signal?.aborted === true) return finish('stopped', []);
    return finish('failed', [describe(error)]);
  }
}

async function deleteDue(
  store: Provider,
  { rules, nowMs, fullWalk }: SweepParams,
  common: Omit<SelectedDeletion, 'selection'>,
): Promise<void> {
  const deciding = rules.instances.filter(({ keepForMs }) => Number.isFinite(keepForMs));
  if (deciding.length === 0) return;
  const endedBefore = nowMs - Math.min(...deciding.map(({ keepForMs }) => keepForMs));
  await deleteSelected(store, {
    ...common,
    selection: {
      statuses: [...new Set(deciding.flatMap(({ statuses }) => statuses))],
      endedBefore,
      accepts: (instance) => isDue(rules.instances, instance, nowMs),
      rootsOnly: true,
      withFinishedExecutions: false,
      // An instance is created before it ends, unless clocks disagree. Regular full scans cover that case.
      ...(!fullWalk && { createdBefore: endedBefore }),
    },
  });
}

/** Whether a root has outlived the first rule that matches it. */
export function isDue(
  rules: readonly InstanceRule[],
  { status, name, endedAt, tags }: Pick<ScannedInstance, 'status' | 'name' | 'endedAt' | 'tags'>,
  nowMs: number,
): boolean {
  const rule = rules.find(
    (one) =>
      one.statuses.some((wanted) => wanted === status) &&
      one.matchesName(name) &&
      hasTags(tags, one.tags),
  );
  return rule !== undefined && endedAt !== null && endedAt < nowMs - rule.keepForMs;
}

async function pruneDue(
  store: Provider,
  { rules, nowMs }: SweepParams,
  common: Omit<SelectedPrune, 'selection' | 'conditionsOf'>,
): Promise<void> {
  if (rules.executions.length === 0) return;
  await pruneSelected(store, {
    ...common,
    selection: { statuses: instanceStatuses, rootsOnly: false, withFinishedExecutions: true },
    conditionsOf: ({ name }) => {
      const rule = rules.executions.find(({ matchesName }) => matchesName(name));
      if (rule === undefined) return undefined;
      const { keepLast, keepForMs } = rule;
      return { keepLast, ...(keepForMs > 0 && { endedBefore: nowMs - keepForMs }) };
    },
  });
}

function shapeOf({ instances, executions }: RetentionRules): object {
  return {
    instances: instances.map(({ statuses, names, tags, keepForMs }) => ({
      statuses,
      ...(names !== undefined && { names }),
      ...(tags !== undefined && { tags: Object.keys(tags) }),
      keepForMs: Number.isFinite(keepForMs) ? keepForMs : 'forever',
    })),
    executions: executions.map(({ names, keepLast, keepForMs }) => ({
      ...(names !== undefined && { names }),
      keepLast,
      ...(keepForMs > 0 && { keepForMs }),
    })),
  };
}

function describe(error: unknown): string {
  const operation = error instanceof ProviderError ? `${error.operation}: ` : '';
  return `${operation}${error instanceof Error ? error.message : String(error)}`.slice(0, 1_000);
}

/** A sweep by a worker or a client. */
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

/** Runs one sweep and returns its report. */
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
