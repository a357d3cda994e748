import { calledTask, taskActivityName } from '../../model/task-call.ts';
import type { DefinitionKind, PausedDefinition } from '../../providers/contract/pausing.ts';

/** The definitions that a pause of a name concerns. A task is paused with the activity that runs its calls. */
export function pausedTogether(
  name: string,
  kinds: readonly DefinitionKind[],
): readonly { readonly kind: DefinitionKind; readonly name: string }[] {
  const named = kinds.map((kind) => ({ kind, name }));
  if (!kinds.includes('task')) return named;
  return [...named, { kind: 'activity', name: taskActivityName(name) }];
}

/** The paused definitions without the calls of paused tasks. */
export function withoutCalls(paused: readonly PausedDefinition[]): readonly PausedDefinition[] {
  const tasks = new Set(paused.flatMap(({ kind, name }) => (kind === 'task' ? [name] : [])));
  return paused.filter(({ kind, name }) => {
    const task = kind === 'activity' ? calledTask(name) : undefined;
    return task === undefined || !tasks.has(task);
  });
}
