/** Fan out over a list, collect the results, and continue if some fail. Native `Promise` combinators are deterministic. */
import { activity, orchestration, Perdure } from 'perdure';

const library: Readonly<Record<string, string>> = {
  'ode.txt': 'Thou still unravished bride of quietness',
  'haiku.txt': 'old pond a frog leaps in the sound of water',
  'limerick.txt': 'There was an old man with a beard',
};

const countWords = activity('countWords', async (_ctx, file: string) => {
  const text = library[file];
  if (text === undefined) throw new Error(`file not found: ${file}`);
  return text.split(' ').length;
});

const countAll = orchestration('countAll', async (ctx, files: readonly string[]) => {
  const counts = await Promise.allSettled(files.map((file) => ctx.call(countWords, file)));
  // A cancel rejects every call, and `allSettled` swallows these errors: rethrow.
  ctx.throwIfCanceled();
  const found = counts.filter((count) => count.status === 'fulfilled').map((count) => count.value);
  return { files: found.length, words: found.reduce((sum, words) => sum + words, 0) };
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
await perdure.startWorker({ orchestrations: [countAll], activities: [countWords] });

const handle = await perdure.client.start(countAll, [...Object.keys(library), 'lost.txt']);
const { files, words } = await handle.result();
console.log(`${words} words in ${files} files`);
await perdure.close();

// Output:
// 24 words in 3 files
