/** `perdure dev` and `perdure worker` run everything that this file exports. */
import { activity, event, orchestration } from 'perdure';

/** What the model wants next: a tool call, or the final text. */
export interface Answer {
  readonly tool?: { readonly name: 'weather' | 'sendMail'; readonly argument: string };
  readonly text: string;
}

/** An operator allows or denies a tool call that has effects. */
export const approval = event<{ readonly allowed: boolean }>('approval');

/** Replace the body with a call of your model. The conversation is its input, so a retry repeats one call only. */
export const askModel = activity(
  'askModel',
  async (_ctx, conversation: readonly string[]): Promise<Answer> => {
    const [question = '', weather, mail] = conversation;
    if (weather === undefined) return { tool: { name: 'weather', argument: 'Oslo' }, text: '' };
    if (mail === undefined) return { tool: { name: 'sendMail', argument: weather }, text: '' };
    return { text: `${question} Done: ${mail}.` };
  },
  { retry: { maxAttempts: 5 }, timeout: '2m' },
);

export const runTool = activity(
  'runTool',
  async (_ctx, { name, argument }: NonNullable<Answer['tool']>): Promise<string> =>
    name === 'weather' ? `sunny in ${argument}` : `mail sent (${argument})`,
);

/** Asks the model until it has an answer. Each answer and each tool result is recorded, so a crash repeats nothing. */
export const agent = orchestration('agent', async (ctx, question: string) => {
  const conversation = [question];
  for (let turn = 1; turn <= 20; turn += 1) {
    const { tool, text } = await ctx.call(askModel, conversation);
    if (tool === undefined) return text;
    ctx.setCustomStatus({ turn, tool: tool.name });
    if (tool.name === 'sendMail') {
      const { allowed } = await ctx.waitFor(approval, { timeout: '7d' });
      if (!allowed) return 'The mail was not approved.';
    }
    conversation.push(await ctx.call(runTool, tool));
  }
  return 'No answer after 20 turns.';
});
