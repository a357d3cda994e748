import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Perdure, type Job } from 'perdure';
import { check, percentile, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { Reports, sharedNow } from '../cancel-latencies.ts';

interface Report {
  readonly key: string;
  readonly at: number;
}

/**
 * Jobs over HTTP: server and worker in another process, all slots taken, and as many jobs queued. Measures from
 * `close()` to the abort of the handler, one job at a time and then 1,000 concurrently.
 */
export async function closedJobs({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const slots = quick ? 200 : 1_000;
  const program = join(import.meta.dirname, '..', 'job-server-program.ts');
  const other = fork(program, [store, String(slots)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = once(other, 'exit');
  const reports = new Reports();
  try {
    const [[{ key: url = '' } = {}]] = (await once(other, 'message')) as [
      readonly Partial<Report>[],
    ];
    other.on('message', (some: readonly Report[]) => {
      for (const { key, at } of some) reports.add(key, at);
    });
    await using connection = await Perdure.connect(url);
    const session = await connection.client.openSession({ maxInFlight: 2 * slots });
    const jobs = Array.from({ length: 2 * slots }, () =>
      session.submit('hold', undefined, { kind: 'task' }),
    );
    const [first, second] = [jobs.slice(0, slots), jobs.slice(slots)];
    const single: number[] = [];
    for (const job of first) {
      await reports.take(`started ${job.id}`);
      single.push(await closeAndHear(job, reports));
    }
    for (const job of second) await reports.take(`started ${job.id}`);
    const burst = await Promise.all(second.map((job) => closeAndHear(job, reports)));
    check(single.length === slots && burst.length === slots, 'every close is heard');
    return {
      slots,
      signalP50Ms: percentile(single, 0.5),
      signalP99Ms: percentile(single, 0.99),
      burstP50Ms: percentile(burst, 0.5),
      burstP99Ms: percentile(burst, 0.99),
    };
  } finally {
    other.disconnect();
    await exited;
  }
}

async function closeAndHear(job: Job, reports: Reports): Promise<number> {
  const closedAt = sharedNow();
  job.close();
  return (await reports.take(`told ${job.id}`)) - closedAt;
}
