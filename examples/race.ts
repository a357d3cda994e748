/** The first answer wins, and the others are told to stop: nothing goes on that nobody waits for. */
import { setTimeout as delay } from 'node:timers/promises';
import { activity, orchestration, Perdure } from 'perdure';

const patience = '2s';

interface Mirror {
  readonly city: string;
  readonly ms: number;
}

const download = activity('download', async (ctx, { city, ms }: Mirror) => {
  try {
    await delay(ms, undefined, { signal: ctx.signal });
    return `the file from ${city}`;
  } catch (error) {
    console.log(`${city} stops: ${(await ctx.canceled()).reason}`);
    throw error;
  }
});

const fetchFile = orchestration('fetchFile', async (ctx, mirrors: readonly Mirror[]) => {
  // 'wait': the race is decided at once all the same, but the instance ends when the losers have really stopped.
  const downloads = mirrors.map((mirror) => ctx.call(download, mirror, { cancellation: 'wait' }));
  const first = await ctx.select({ file: ctx.race(downloads), late: ctx.sleep(patience) });
  return first.key === 'file' ? first.value : 'nobody has it';
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [fetchFile], activities: [download] });

const mirrors = [
  { city: 'Oslo', ms: 10 },
  { city: 'Lima', ms: 60_000 },
];
for (const asked of [mirrors, mirrors.slice(1)]) {
  const handle = await perdure.client.start(fetchFile, asked);
  console.log(await handle.result());
}
await perdure.close();

// Output:
// Lima stops: race_lost
// the file from Oslo
// Lima stops: race_lost:timeout
// nobody has it
