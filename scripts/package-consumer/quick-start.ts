import { activity, orchestration, Perdure } from 'perdure';

const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}!`);

const hello = orchestration('hello', async (ctx, name: string) => {
  return await ctx.call(greet, name);
});

const perdure = await Perdure.open('app.db');
const worker = await perdure.startWorker({ orchestrations: [hello], activities: [greet] });
const handle = await perdure.client.start(hello, 'World', { id: 'hello-1' });
// The annotation is the type test: the result's type flows from the definition.
const result: string = await handle.result();
console.log(result);
await worker.stop();
await perdure.close();
