import { flowVersion } from '../../model/definition.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { CountInstancesParams, InstanceCount } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { readListFilter } from './instance-list.ts';

/** Options of `count`. */
export interface CountOptions {
  /** The highest count, 1 to 100,000. Default 10,000. */
  readonly cap?: number | undefined;
}

/** A definition that has instances, with their number by status. */
export interface DefinitionInfo {
  readonly kind: 'orchestration' | 'task' | 'flow';
  readonly name: string;
  /** Absent for a task and a flow, and while no worker has chosen a version. */
  readonly version?: string;
  /** Instances by status; absent: none. `capped` marks a lower bound. */
  readonly counts: Readonly<Partial<Record<InstanceStatus, InstanceCount>>>;
}

const defaultCap = 10_000;
const maxCap = 100_000;

/** Checks the arguments of `count`. */
export function readCountArguments(
  filter: unknown,
  options: unknown,
  nowMs: number,
): CountInstancesParams {
  const { cap = defaultCap } = readFields(options, 'count()', ['cap'] as const);
  const isValid = Number.isSafeInteger(cap) && (cap as number) >= 1 && (cap as number) <= maxCap;
  if (!isValid) throw invalid('cap', cap, `a whole number from 1 to ${maxCap}`);
  return { filter: readListFilter(filter, 'the filter of count()', nowMs), cap: cap as number };
}

// Few per call, so that SQLite blocks the event loop only for a short time.
const definitionsAtOnce = 10;
const maxInstances = 1_000;

/** Lists all definitions that have instances. A definition with more than 1,000 instances has capped counts. */
export async function listDefinitions(provider: Provider): Promise<readonly DefinitionInfo[]> {
  const all: DefinitionInfo[] = [];
  for (let afterKey = 0; ;) {
    const records = await provider.listDefinitions({
      afterKey,
      limit: definitionsAtOnce,
      cap: maxInstances,
    });
    for (const { kind, name, version, counts } of records) {
      const isFlow = kind === 'orchestration' && version === flowVersion;
      all.push({
        kind: isFlow ? 'flow' : kind,
        name,
        ...(version !== null && !isFlow && { version }),
        counts,
      });
    }
    const last = records.at(-1);
    if (last === undefined || records.length < definitionsAtOnce) return all;
    afterKey = last.definitionKey;
  }
}
