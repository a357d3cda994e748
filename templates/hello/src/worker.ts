/** `perdure dev` and `perdure worker` run everything that this file exports. */
import { activity, orchestration } from 'perdure';

/** An activity does the work: calls, queries, mails. It is retried if it throws. */
export const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}!`);

/** An orchestration decides what happens next. It survives crashes and waits for days without a process. */
export const hello = orchestration('hello', async (ctx, name: string) => {
  const greeting = await ctx.call(greet, name);
  await ctx.sleep('1s');
  return greeting;
});
