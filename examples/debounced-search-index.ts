/** A search index: many changes of one document become one update of the index, with the newest text. */
import { Perdure, task } from 'perdure';

const index = new Map<string, string>();

const updateIndex = task('updateIndex', async (_ctx, document: { id: string; text: string }) => {
  index.set(document.id, document.text);
  return `indexed ${document.id}: ${document.text}`;
});

const perdure = await Perdure.open(process.argv[2] ?? ':memory:');
const { client } = perdure;

/** Called at each change. The update runs a second after the last change, and at most 5 s after the first. */
function changed(id: string, text: string) {
  const debounce = { key: id, wait: '1s', maxWait: '5s' };
  return client.runTask(updateIndex, { id, text }, { debounce });
}

const first = await changed('doc-1', 'D');
await changed('doc-1', 'Dr');
const last = await changed('doc-1', 'Draft');
const other = await changed('doc-2', 'Notes');
console.log(last.id === first.id, last.created, other.id === first.id);

const { short } = await client.why(first.id);
console.log(short.replace(/in .* \(/, 'soon ('));

const worker = await perdure.startWorker({ tasks: [updateIndex] });
console.log(await last.result());
console.log(await other.result());

// The run has started, so the next change has a run of its own.
const next = await changed('doc-1', 'Final');
console.log(next.created, await next.result());

// A request that is repeated within an hour returns the first run, even after its end.
const dedupe = { key: 'webhook-17', for: '1h' };
const import1 = await client.runTask(updateIndex, { id: 'doc-3', text: 'Imported' }, { dedupe });
await import1.result();
const import2 = await client.runTask(updateIndex, { id: 'doc-3', text: 'Imported' }, { dedupe });
console.log(import2.id === import1.id, import2.created, index.size);

await worker.stop();
await perdure.close();

// Output:
// true false false
// Debounced: starts soon (moved 2 times)
// indexed doc-1: Draft
// indexed doc-2: Notes
// true indexed doc-1: Final
// true false 3
