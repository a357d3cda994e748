import { flowVersion } from '../../model/definition.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type {
  CountInstancesParams,
  DefinitionRecord,
  InstanceCount,
} from '../../providers/contract/instances.ts';
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

/**
 * Lists all definitions that have instances, by name in the order of UTF-16 code units, then by kind and version.
 * A definition with more than 1,000 instances has capped counts.
 */
export async function listDefinitions(provider: Provider): Promise<readonly DefinitionInfo[]> {
  const all: DefinitionInfo[] = [];
  const pages = definitionPages(provider, { limit: definitionsAtOnce, cap: maxInstances });
  for await (const { kind, name, version, counts } of pages) {
    const isFlow = kind === 'orchestration' && version === flowVersion;
    all.push({
      kind: isFlow ? 'flow' : kind,
      name,
      ...(version !== null && !isFlow && { version }),
      counts,
    });
  }
  return all.toSorted(byName);
}

/** The names of all definitions that have instances, in no order. Reads two instances of each status at most. */
export async function listDefinitionNames(provider: Provider): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const { name } of definitionPages(provider, { limit: 100, cap: 1 })) names.add(name);
  return names;
}

async function* definitionPages(
  provider: Provider,
  page: { readonly limit: number; readonly cap: number },
): AsyncGenerator<DefinitionRecord, void, undefined> {
  for (let afterKey = 0; ;) {
    const records = await provider.listDefinitions({ afterKey, ...page });
    yield* records;
    const last = records.at(-1);
    if (last === undefined || records.length < page.limit) return;
    afterKey = last.definitionKey;
  }
}

function byName(one: DefinitionInfo, other: DefinitionInfo): number {
  return (
    compareCodeUnits(one.name, other.name) ||
    compareCodeUnits(one.kind, other.kind) ||
    compareCodeUnits(one.version ?? '', other.version ?? '')
  );
}

function compareCodeUnits(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
