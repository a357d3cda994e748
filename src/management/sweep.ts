import { ProviderError } from '../model/errors.ts';
import type { ScannedInstance } from '../providers/management.ts';
import type { Provider } from '../providers/provider.ts';
import { newAuditEntry } from './audit-entry.ts';
import { addDeleted, addPruned, nothingDeleted, nothingPruned } from './counts.ts';
import { deleteSelected } from './delete-selected.ts';
import { Pacer } from './pacer.ts';
import { runningStatuses } from './prune-executions-bulk.ts';
import { pruneSelected } from './prune-selected.ts';
import { reclaim } from './reclaim.ts';
import type { ExecutionRule, InstanceRule, RetentionRules } from './retention-policy.ts';
import type { RetentionReport } from './retention-records.ts';

/** What a sweep is to do. */
export interface SweepParams {
  readonly rules: RetentionRules;
  /** The moment by which ages are measured. */
  readonly nowMs: number;
  readonly dryRun: boolean;
  readonly actor: string;
  /** Also look where instances were created too late to be due by a true clock. */
  readonly fullWalk: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Asked between two transactions: why to end early, or `undefined` to go on. */
  readonly interrupted: () => Promise<Interruption | undefined>;
}

/** Why a sweep ends early. */
export type Interruption = 'paused' | 'lostLease';

type SweepCounts = Pick<RetentionReport, 'outcome' | 'deleted' | 'pruned' | 'left' | 'errors'>;

/** Ends a sweep from within; the report says why. */
class Interrupted extends Error {
  readonly why: Interruption;

  constructor(why: Interruption) {
    super(why);
    this.why = why;
  }
}

const everything = Number.MAX_SAFE_INTEGER;

/** Applies policies to the whole store once. Never throws: what went wrong is in the report. */
export async function sweep(store: Provider, params: SweepParams): Promise<SweepCounts> {
  const { rules, nowMs, dryRun, actor, signal } = params;
  const sum = { deleted: nothingDeleted, pruned: nothingPruned, left: 0 };
  const audit = newAuditEntry('retention', actor, shapeOf(rules));
  const pacer = new Pacer(signal);
  const goOn = async (): Promise<void> => {
    const why = await params.interrupted();
    if (why !== undefined) throw new Interrupted(why);
  };
  const finish = (outcome: SweepCounts['outcome'], errors: readonly string[]): SweepCounts => ({
    ...sum,
    outcome,
    errors,
  });
  try {
    await deleteDue(store, { dryRun, audit, pacer, limit: everything }, params, async (step) => {
      sum.deleted = addDeleted(sum.deleted, step.counts);
      sum.left += step.rootsSkipped;
      await goOn();
    });
    for (const rule of rules.executions) {
      await pruneSelected(store, {
        selection: selectForPruning(rule, rules.executions),
        conditions: {
          keepLast: rule.keepLast,
          ...(rule.keepForMs > 0 && { endedBefore: nowMs - rule.keepForMs }),
        },
        limit: everything,
        dryRun,
        audit,
        pacer,
        onStep: async (result) => {
          sum.pruned = addPruned(sum.pruned, result);
          await goOn();
        },
      });
    }
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
  how: Pick<Parameters<typeof deleteSelected>[1], 'dryRun' | 'audit' | 'pacer' | 'limit'>,
  { rules, nowMs, fullWalk }: SweepParams,
  onStep: Parameters<typeof deleteSelected>[1]['onStep'],
): Promise<void> {
  const deciding = rules.instances.filter(({ keepForMs }) => Number.isFinite(keepForMs));
  if (deciding.length === 0) return;
  const endedBefore = nowMs - Math.min(...deciding.map(({ keepForMs }) => keepForMs));
  await deleteSelected(store, {
    ...how,
    selection: {
      statuses: [...new Set(deciding.flatMap(({ statuses }) => statuses))],
      endedBefore,
      accepts: (instance) => isDue(rules.instances, instance, nowMs),
      rootsOnly: true,
      withFinishedExecutions: false,
      // What ended before a time was created before it, unless clocks disagree: hence a full walk now and then.
      ...(!fullWalk && { createdBefore: endedBefore }),
    },
    onStep,
  });
}

/** Says whether the first rule that matches a root lets it go. */
export function isDue(
  rules: readonly InstanceRule[],
  { status, name, endedAt }: Pick<ScannedInstance, 'status' | 'name' | 'endedAt'>,
  nowMs: number,
): boolean {
  const rule = rules.find(
    ({ statuses, matchesName }) => statuses.some((one) => one === status) && matchesName(name),
  );
  return rule !== undefined && endedAt !== null && endedAt < nowMs - rule.keepForMs;
}

function selectForPruning(rule: ExecutionRule, rules: readonly ExecutionRule[]) {
  return {
    statuses: ['completed', 'failed', 'canceled', 'terminated', ...runningStatuses] as const,
    accepts: ({ name }: ScannedInstance) => rules.find((one) => one.matchesName(name)) === rule,
    rootsOnly: false,
    withFinishedExecutions: true,
  };
}

function shapeOf({ instances, executions }: RetentionRules): object {
  return {
    instances: instances.map(({ statuses, names, keepForMs }) => ({
      statuses,
      ...(names !== undefined && { names }),
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
