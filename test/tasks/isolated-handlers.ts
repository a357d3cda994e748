import type { TaskContext } from '../../src/tasks/task.ts';

/** Handlers of isolated tasks. Each runs in its own thread. */
export async function describe(ctx: TaskContext, input: string): Promise<object> {
  const { runId, taskName, headers, attempt } = ctx;
  return { runId, taskName, headers, attempt, input };
}

export function spin(): never {
  for (;;);
}

export async function quit(ctx: TaskContext): Promise<string> {
  await ctx.cancel('enough');
  return ctx.isCanceled ? 'told' : 'not told';
}
