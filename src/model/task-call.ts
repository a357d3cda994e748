const prefix = 'task:';

/**
 * The name of the activity that runs a task for an orchestration. Every worker that has the task has this activity. A
 * call of a task is therefore claimed, canceled, retried and recorded as a call of an activity.
 */
export function taskActivityName(task: string): string {
  return prefix + task;
}

/** The name of the task that an activity calls, or `undefined` if it calls none. */
export function calledTask(activity: string): string | undefined {
  return activity.startsWith(prefix) ? activity.slice(prefix.length) : undefined;
}

/** The name of the task that a work item runs. */
export function taskNameOf(name: string, kind: 'activity' | 'task' | 'onFail'): string {
  return kind === 'activity' ? (calledTask(name) ?? name) : name;
}
