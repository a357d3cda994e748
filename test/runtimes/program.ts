/**
 * Runs the main features on one runtime, on a given store.
 * `crash`: starts an order and kills its own process in the last activity. `finish`: waits for that order, then runs the rest.
 */
import { activity, event, orchestration, Perdure, silentLogger, task, update } from 'perdure';
import { flow } from 'perdure/flows';
import { serve } from 'perdure/server';

const [, , store = '', mode = 'finish'] = process.argv;
const go = event<string>('go');
const log: string[] = [];

const charge = activity('charge', async (ctx, cents: number) => `${ctx.attempt}:${cents}`);
const cleanUp = activity('cleanUp', async () => void log.push('cleaned up'));
const ship = activity('ship', async (ctx) => {
  if (mode === 'crash') process.kill(process.pid, 'SIGKILL');
  return `shipped ${ctx.orchestrationName}`;
});
const order = orchestration('order', async (ctx, cents: number) => {
  const paid = await ctx.call(charge, cents);
  await ctx.sleep(20);
  return `${paid}, ${await ctx.call(ship)}`;
});
const parent = orchestration('parent', async (ctx) => {
  const name = await ctx.waitFor(go);
  const outputs = await ctx.all([ctx.child(order, 1), ctx.child(order, 2)]);
  return `${name}: ${outputs.length}`;
});
const idle = orchestration('idle', async (ctx) => {
  try {
    await ctx.waitFor('never');
  } catch (error) {
    await ctx.shield(() => ctx.call(cleanUp));
    throw error;
  }
});
const double = task(
  'double',
  async (ctx, n: number) => {
    if (ctx.attempt === 1) throw new Error('again');
    return n * 2;
  },
  { retry: { initialDelay: 1 } },
);
const add = update<number, number>('add');
const talking = orchestration('talking', async (ctx) => {
  let sum = 0;
  ctx.onUpdate(add, {
    handle: (n) => {
      sum += n;
      return sum;
    },
  });
  const emitted = await ctx.run('emit', (step) => step.emit('from a step'));
  const written = await ctx.transaction('write', async (tx) => {
    await tx.query('CREATE TABLE notes (text TEXT)');
    await tx.query('INSERT INTO notes VALUES ($1)', ['note']);
    return (await tx.query<{ text: string }>('SELECT text FROM notes')).rows[0]?.text;
  });
  const { token, promise } = ctx.awakeable<string>();
  ctx.state.set('token', token);
  return [emitted, written, await promise, sum];
});
const steps = flow('steps')
  .step('one', () => 1)
  .step('two', { needs: ['one'] }, (_ctx, { one }) => one + 1)
  .output();

const perdure = await Perdure.open(store, { logger: silentLogger });
await perdure.startWorker({
  orchestrations: [order, parent, idle, talking],
  activities: [charge, ship, cleanUp],
  tasks: [double],
  flows: [steps],
});
const { client } = perdure;
const crashed = await client.start(order, 7, { id: 'crashed' });
const survived = await crashed.result();

const server = await serve(perdure, { port: 0 });
const connection = await Perdure.connect(server.url);
const waiting = await connection.client.start(parent);
await waiting.raiseEvent(go, 'remote');
const remote = await waiting.result();
const talk = await connection.client.start(talking);
const { value: token } = await talk.waitForState<string>('token');
const sum = await connection.client.update(talk.id, add, 5);
await connection.client.resolveAwakeable(token, 'answered');
const talked = await talk.result();
const chunks: unknown[] = [];
for await (const entry of talk.stream()) if (entry.kind === 'chunk') chunks.push(entry.value);
const canceled = await client.start(idle);
await canceled.cancel({ reason: 'enough', wait: true });
const results = {
  survived,
  remote,
  doubled: await (await client.runTask(double, 21)).result(),
  flow: await (await client.runFlow(steps)).result(),
  canceled: (await canceled.status()).status,
  cleanedUp: log,
  talked: { talked, sum, chunks },
};
await connection.close();
await server.close();
await perdure.close();
console.log(JSON.stringify(results));
