/** A deadline with clean-up: a scope with a timeout cancels the work, and a shield cleans up after it has stopped. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, CanceledError, orchestration, Perdure } from 'perdure';

const limit = '1s'; // or '2h': the deadline is a durable timer

const createFolder = activity('createFolder', async (ctx) => `folder of ${ctx.instanceId}`);

const encode = activity('encode', async (ctx, { folder, ms }: { folder: string; ms: number }) => {
  try {
    // Pass the signal on: fetch, timers, child processes and streams accept one.
    await delay(ms, undefined, { signal: ctx.signal });
    return `a film in the ${folder}`;
  } catch (error) {
    console.log(`the encoder stopped: ${(await ctx.canceled()).reason}`);
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
      // 'wait': the scope settles only after the encoder has stopped using the folder.
      () => ctx.call(encode, { folder, ms }, { cancellation: 'wait' }),
      { timeout: limit, name: 'encoding' },
    );
  } catch (error) {
    if (error instanceof CanceledError && error.trigger === 'timeout') return 'took too long';
    throw error;
  } finally {
    // Shielded, so that it also runs if the instance itself is canceled.
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
// the encoder stopped: scope 'encoding' timed out after 1000 ms
// removed the folder of epic
// took too long
