/** The first result wins a race, and the losers are canceled through their signals. */
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
  // 'wait': the race still resolves immediately, but the instance ends only after the losers have stopped.
  const downloads = mirrors.map((mirror) => ctx.call(download, mirror, { cancellation: 'wait' }));
  const first = await ctx.select({ file: ctx.race(downloads), late: ctx.sleep(patience) });
  return first.key === 'file' ? first.value : 'no mirror responded';
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [fetchFile], activities: [download] });

const mirrors = [
  { city: 'Oslo', ms: 10 },
  { city: 'Lima', ms: 60_000 },
];
for (const candidates of [mirrors, mirrors.slice(1)]) {
  const handle = await perdure.client.start(fetchFile, candidates);
  console.log(await handle.result());
}
await perdure.close();

// Output:
// Lima stops: race_lost
// the file from Oslo
// Lima stops: race_lost:timeout
// no mirror responded
