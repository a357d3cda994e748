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

/** The definition that a worker must have to run work: a call of a task needs the task. */
export function codeOf({
  kind,
  name,
}: {
  readonly kind: 'activity' | 'task' | 'onFail';
  readonly name: string;
}): { readonly kind: 'activity' | 'task'; readonly name: string } {
  const task = kind === 'activity' ? calledTask(name) : name;
  return task === undefined ? { kind: 'activity', name } : { kind: 'task', name: task };
}

/** The name of the task that a work item runs. */
export function taskNameOf(name: string, kind: 'activity' | 'task' | 'onFail'): string {
  return kind === 'activity' ? (calledTask(name) ?? name) : name;
}
