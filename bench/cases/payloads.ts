import { Perdure } from 'perdure';
import Database from 'better-sqlite3';
import { check, median, runInLanes, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { definitions, echo } from '../definitions.ts';

const lanes = 16;

/** Hellos that return an object of 1.3 KB and of 133 KB: rates, and the copies that the file keeps of each object. */
export async function payloads({ store, quick }: BenchmarkSetup): Promise<Figures> {
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const measure = async (bytes: number, count: number) => {
    const text = 'x'.repeat(bytes);
    let hellos = 0;
    const run = async (): Promise<void> => {
      // A new text for each hello, because texts are kept for a second.
      const input = { text: `${(hellos += 1)}${text}` };
      const handle = await perdure.client.start(echo, input);
      check(((await handle.result()) as typeof input).text === input.text, 'echo');
    };
    await runInLanes(count, lanes, run);
    const before = usedBytes(store);
    const rates: number[] = [];
    for (let round = 0; round < 5; round++)
      rates.push(count / (await runInLanes(count, lanes, run)));
    const stored = usedBytes(store) - before;
    return { perSecond: median(rates), copies: stored / (5 * count * bytes) };
  };
  const small = await measure(1_300, quick ? 100 : 1_000);
  const large = await measure(133_000, quick ? 20 : 100);
  return {
    smallPerSecond: small.perSecond,
    smallCopies: small.copies,
    largePerSecond: large.perSecond,
    largeCopies: large.copies,
  };
}

/** The bytes of the pages in use, with those that are still in the write-ahead log. */
function usedBytes(store: string): number {
  const db = new Database(store, { readonly: true });
  try {
    const pragma = (name: string) => Number(db.pragma(name, { simple: true }));
    return (pragma('page_count') - pragma('freelist_count')) * pragma('page_size');
  } finally {
    db.close();
  }
}
