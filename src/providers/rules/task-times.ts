import type { NewTask } from '../contract/tasks.ts';

/** The moments of a new run, in whole milliseconds. */
export interface TaskTimes {
  /** When it may start; `null`: at once. */
  readonly runAt: number | null;
  readonly expiresAt: number | null;
}

/** What the durations of a new run mean when it is created at `now` by the store's clock. */
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
