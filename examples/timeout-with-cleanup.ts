/** Give work a deadline, and clean up when it has really stopped: a scope with a timeout, and a shield. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, CanceledError, orchestration, Perdure } from 'perdure';

const limit = '200ms'; // or '2h': the deadline is a durable timer

const createFolder = activity('createFolder', async (ctx) => `folder of ${ctx.instanceId}`);

const encode = activity('encode', async (ctx, { folder, ms }: { folder: string; ms: number }) => {
  try {
    // Whatever is given the signal stops with it: fetch, timers, child processes, streams.
    await delay(ms, undefined, { signal: ctx.signal });
    return `a film in the ${folder}`;
  } catch (error) {
    console.log(`the encoder stops: ${(await ctx.canceled()).reason}`);
    throw error;
  }
});

const removeFolder = activity('removeFolder', async (_ctx, folder: string) => {
  console.log(`removed the ${folder}`);
});

const render = orchestration('render', async (ctx, ms: number) => {
  const folder = await ctx.call(createFolder);
  try {
    return await ctx.scope(
      // 'wait': the scope ends when the encoder has really let go of the folder, not before.
      () => ctx.call(encode, { folder, ms }, { cancellation: 'wait' }),
      { timeout: limit, name: 'encoding' },
    );
  } catch (error) {
    if (error instanceof CanceledError && error.trigger === 'timeout') return 'too long a film';
    throw error;
  } finally {
    // In a shield, so that it also happens when the instance itself is canceled.
    await ctx.shield(() => ctx.call(removeFolder, folder));
  }
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({
  orchestrations: [render],
  activities: [createFolder, encode, removeFolder],
});
const { client } = perdure;

console.log(await (await client.start(render, 10, { id: 'trailer' })).result());
console.log(await (await client.start(render, 3_600_000, { id: 'epic' })).result());
await perdure.close();

// Output:
// removed the folder of trailer
// a film in the folder of trailer
// the encoder stops: scope 'encoding' timed out after 200 ms
// removed the folder of epic
// too long a film
