/** What a page does with a remote client; loaded by a browser as it is, but for its types. */
import { connect, isPerdureError } from '../../src/remote.ts';

/** What the page saw. */
export interface PageReport {
  readonly hello: unknown;
  readonly refusal: unknown;
  readonly chunks: readonly unknown[];
  readonly results: readonly unknown[];
  /** How long it took to cancel a job while many others were waited for. */
  readonly cancelMs: number;
}

export type RunPage = (url: string, token: string) => Promise<PageReport>;

const run: RunPage = async (url, token) => {
  const connection = await connect(url, { token });
  const { client } = connection;
  const hello = await (await client.start('hello', 'Browser')).result();
  const refusal = await client
    .handle('no such instance')
    .result()
    .catch((error: unknown) => (isPerdureError(error) ? error.code : String(error)));

  const counting = client.submit('count', 5, { kind: 'task' });
  const chunks: unknown[] = [];
  for await (const chunk of counting.stream()) chunks.push(chunk);

  // More waits and streams than a browser has connections, and a cancel that must get through all the same.
  const endless = Array.from({ length: 20 }, () =>
    client.submit('endless', undefined, { kind: 'task' }),
  );
  const reading = endless.map(async (job) => {
    try {
      for await (const chunk of job.stream()) void chunk;
    } catch {
      // They are closed under the reader.
    }
  });
  const started = await Promise.all(
    Array.from({ length: 20 }, (_, index) => client.start('hello', `no. ${index}`)),
  );
  const results = await Promise.all(started.map((handle) => handle.result()));
  const begun = performance.now();
  await endless[0]?.cancel({ wait: true });
  const cancelMs = performance.now() - begun;
  for (const job of endless) job.close();
  await Promise.all(reading);
  await connection.close();
  return { hello, refusal, chunks, results, cancelMs };
};

Object.assign(globalThis, { runPage: run });
