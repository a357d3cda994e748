import type { DefinitionQueue } from '../contract/management.ts';

/** A part of the entries of a definition. */
export interface QueuePart extends Pick<DefinitionQueue, 'kind' | 'name'> {
  /** Whether their instances or their definition are paused. */
  readonly isPaused: boolean;
  /** Entries that are due and that no worker holds. */
  readonly due: number;
  /** Entries that are due later and that no worker holds. */
  readonly delayed: number;
  readonly held: number;
  /** Since when the longest waiting of the due entries is due. */
  readonly oldestDueAt: number | null;
}

/** Adds the parts of each definition. The longest waiting is first, then the deepest. */
export function sumQueueParts(
  parts: readonly QueuePart[],
  { cap, limit }: { readonly cap: number; readonly limit: number },
): readonly DefinitionQueue[] {
  const queues = [...Map.groupBy(parts, ({ kind, name }) => `${kind} ${name}`).values()]
    .flatMap((own) => {
      const [first] = own;
      return first === undefined ? [] : [sumOne(first, own, cap)];
    })
    .filter(({ ready, delayed, claimed, paused }) => ready + delayed + claimed + paused > 0);
  return queues.toSorted(byAge).slice(0, limit);
}

function sumOne(
  { kind, name }: QueuePart,
  parts: readonly QueuePart[],
  cap: number,
): DefinitionQueue {
  const sum = (of: readonly QueuePart[], count: (part: QueuePart) => number): number =>
    of.reduce((total, part) => total + count(part), 0);
  const paused = parts.filter(({ isPaused }) => isPaused);
  const others = parts.filter(({ isPaused }) => !isPaused);
  const counts = {
    ready: sum(others, ({ due }) => due),
    delayed: sum(others, ({ delayed }) => delayed),
    claimed: sum(parts, ({ held }) => held),
    paused: sum(paused, ({ due, delayed }) => due + delayed),
  };
  const oldest = Math.min(...others.map(({ oldestDueAt }) => oldestDueAt ?? Infinity));
  return {
    kind,
    name,
    ready: Math.min(counts.ready, cap),
    delayed: Math.min(counts.delayed, cap),
    claimed: Math.min(counts.claimed, cap),
    paused: Math.min(counts.paused, cap),
    oldestReadyAt: oldest === Infinity ? null : oldest,
    // A part stops at the cap too, and may have left out entries of any state.
    capped: parts.some(({ due, delayed, held }) => due + delayed + held >= cap),
  };
}

function byAge(one: DefinitionQueue, other: DefinitionQueue): number {
  const age = (one.oldestReadyAt ?? Infinity) - (other.oldestReadyAt ?? Infinity);
  if (age !== 0 && !Number.isNaN(age)) return age;
  return depthOf(other) - depthOf(one) || (one.name < other.name ? -1 : 1);
}

function depthOf({ ready, delayed, claimed, paused }: DefinitionQueue): number {
  return ready + delayed + claimed + paused;
}
