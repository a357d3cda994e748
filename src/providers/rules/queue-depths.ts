import type { QueueDepth } from '../contract/management.ts';

/** Adds up the depths of several queues, or of slices of one. */
export function sumDepths(parts: readonly QueueDepth[]): QueueDepth {
  const add = (count: (part: QueueDepth) => number): number =>
    parts.reduce((total, part) => total + count(part), 0);
  const oldest = Math.min(...parts.map(({ oldestReadyAt }) => oldestReadyAt ?? Infinity));
  return {
    ready: add(({ ready }) => ready),
    delayed: add(({ delayed }) => delayed),
    claimed: add(({ claimed }) => claimed),
    paused: add(({ paused }) => paused),
    oldestReadyAt: oldest === Infinity ? null : oldest,
  };
}
