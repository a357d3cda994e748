/** A command that starts a long job, shows its progress, and cancels it on Ctrl-C. */
import { setTimeout as delay } from 'node:timers/promises';
import { isPerdureError, Perdure, task } from 'perdure';

interface Progress {
  readonly page: number;
  readonly of: number;
}

const print = task('print', async (ctx, pages: number) => {
  for (let page = 1; page <= pages; page += 1) {
    // Waits while the reader lags behind, and throws once the run is canceled.
    await ctx.emit({ page, of: pages } satisfies Progress);
    await delay(100, undefined, { signal: ctx.signal });
  }
  return `${pages} pages`;
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;
await perdure.startWorker({ tasks: [print] });

async function command(pages: number): Promise<void> {
  // Leaving the block closes the job, also on an error.
  await using job = client.submit(print, pages);
  process.once('SIGINT', () => job.close());
  try {
    for await (const { page, of } of job.stream<Progress>()) {
      console.log(`page ${page} of ${of}`);
      // Sends the signal of Ctrl-C, so that the example ends.
      if (page === 3) process.kill(process.pid, 'SIGINT');
    }
    console.log(await job.result());
  } catch (error) {
    if (!isPerdureError(error, 'JOB_CLOSED')) throw error;
    const { status, cancel } = await client.wait(job.id);
    console.log(`${status}: ${cancel?.reason}`);
  }
}

await command(2);
await command(1_000_000);
await perdure.close();

// Output:
// page 1 of 2
// page 2 of 2
// 2 pages
// page 1 of 1000000
// page 2 of 1000000
// page 3 of 1000000
// canceled: closed by its caller
