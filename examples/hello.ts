/** The smallest program: one activity, one orchestration, one result. A second run with the same id returns the same result. */
import { activity, orchestration, Perdure } from 'perdure';

const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}!`);

const hello = orchestration('hello', async (ctx, name: string) => {
  return await ctx.call(greet, name);
});

const perdure = await Perdure.open('app.db'); // a file, ':memory:', or 'postgres://…'
const worker = await perdure.startWorker({ orchestrations: [hello], activities: [greet] });
const handle = await perdure.client.start(hello, 'World', { id: 'hello-1' });
console.log(await handle.result());
await worker.stop();
await perdure.close();

// Output:
// Hello, World!
