/** An agent: an activity streams the tokens of a model, a person approves each tool, and a page that reloads continues. */
import { activity, orchestration, Perdure } from 'perdure';

interface Answer {
  readonly text: string;
  /** The tool that the model wants to use. Absent: the text is the answer. */
  readonly tool?: string;
}

type Chunk = { readonly token: string } | { readonly status: string };

// Stands in for the mailbox of a person, who answers by a link with the token.
const mails: string[] = [];
const mailApproval = activity('mailApproval', (_ctx, token: string) => {
  mails.push(token);
});

// Stands in for a model: the first turn asks for a tool, the second one answers.
const askModel = activity(
  'askModel',
  async (ctx, { turn }: { question: string; turn: number }): Promise<Answer> => {
    const text = turn === 1 ? 'Let me look.' : 'It is 21 °C.';
    for (const token of text.split(/(?= )/)) {
      // Resolves once the token is stored. A repeated attempt emits again, with another `source.handler.runId`.
      await ctx.emit({ token } satisfies Chunk);
    }
    return { text, ...(turn === 1 && { tool: 'weather' }) };
  },
);

const runTool = activity('runTool', (_ctx, tool: string) => `${tool}: 21 °C`);

const agent = orchestration('agent', async (ctx, question: string) => {
  for (let turn = 1; turn <= 20; turn += 1) {
    const { text, tool } = await ctx.call(askModel, { question, turn });
    if (tool === undefined) return text;
    const { token, promise } = ctx.awakeable<boolean>({ timeout: '1h' });
    await ctx.call(mailApproval, token);
    // Written by the commit of this turn: exactly once, however often the code is replayed.
    ctx.emit({ status: `may I use ${tool}?` } satisfies Chunk);
    if (!(await promise)) return 'The tool was not approved.';
    await ctx.call(runTool, tool);
  }
  return 'The agent took too many turns.';
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({
  orchestrations: [agent],
  activities: [askModel, mailApproval, runTool],
});
const { client } = perdure;
const { id } = await client.start(agent, 'How warm is it in Oslo?');

// A page keeps the cursor of the last entry that it showed.
let lastSeen: string | undefined;
let line = '';

for await (const entry of client.stream<Chunk>(id)) {
  lastSeen = entry.cursor;
  if (entry.kind === 'dropped') continue;
  if ('token' in entry.value) {
    line += entry.value.token;
    continue;
  }
  console.log(line);
  console.log(`status: ${entry.value.status}`);
  break; // The page is reloaded here.
}

await client.resolveAwakeable(mails[0] ?? '', true);
line = '';
for await (const entry of client.stream<Chunk>(id, { after: lastSeen })) {
  if (entry.kind === 'chunk' && 'token' in entry.value) line += entry.value.token;
}
console.log(line);

// A second reader gets the whole stream from its start.
let count = 0;
for await (const entry of client.stream(id)) count += entry.kind === 'chunk' ? 1 : 0;
console.log(`${count} chunks, result: ${String(await client.handle(id).result())}`);
await perdure.close();

// Output:
// Let me look.
// status: may I use weather?
// It is 21 °C.
// 8 chunks, result: It is 21 °C.
