/** Uses a remote client in a page. The browser loads this file without bundling; only its types are stripped. */
import { connect, isPerdureError } from '../../src/remote.ts';

/** The observations of the page. */
export interface PageReport {
  readonly hello: unknown;
  readonly refusal: unknown;
  readonly chunks: readonly unknown[];
  readonly results: readonly unknown[];
  /** Duration of a cancel during many pending waits. */
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

  // With more waits and streams than a browser has connections, a cancel must still be sent.
  const endless = Array.from({ length: 20 }, () =>
    client.submit('endless', undefined, { kind: 'task' }),
  );
  const reading = endless.map(async (job) => {
    try {
      for await (const chunk of job.stream()) void chunk;
    } catch {
      // The jobs are closed while their streams are read.
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
