import type { NewTask } from '../contract/tasks.ts';

/** The attributes by which a repeated start is recognized. */
interface Start {
  readonly kind: 'orchestration' | 'activity' | 'task';
  readonly name: string;
  readonly inputHash: string;
}

/** The result of a start whose id is taken: a repeat of the first start, or a conflict with another. */
export function existingStart(
  existing: Start,
  wanted: Start,
): { readonly kind: 'exists' } | { readonly kind: 'conflict'; readonly name: string } {
  const isSame =
    existing.kind === wanted.kind &&
    existing.name === wanted.name &&
    existing.inputHash === wanted.inputHash;
  return isSame ? { kind: 'exists' } : { kind: 'conflict', name: existing.name };
}

/** The times of a new task run, in whole milliseconds. */
export interface TaskTimes {
  /** When it may start. `null`: immediately. */
  readonly runAt: number | null;
  readonly expiresAt: number | null;
}

/** Converts the durations of a new task run to times, for a run created at `now` by the store's clock. */
export function taskTimes(task: NewTask, now: number): TaskTimes {
  const { delayMs, expiresInMs } = task;
  const runAt = delayMs === undefined ? task.runAt : now + delayMs;
  const expiresAt =
    expiresInMs === undefined ? task.expiresAt : Math.max(runAt ?? now, now) + expiresInMs;
  return { runAt: wholeOrNull(runAt), expiresAt: wholeOrNull(expiresAt) };
}

function wholeOrNull(time: number | undefined): number | null {
  return time === undefined ? null : Math.ceil(time);
}
