/** The other process of a cancel in the middle of a batch: reports when each of its handlers starts. */
import { Perdure } from 'perdure';
import { sharedNow } from './cancel-latencies.ts';
import { createComputing } from './computing-definitions.ts';

export interface Start {
  readonly instanceId: string;
  readonly at: number;
}

const { definitions } = createComputing((instanceId) => {
  process.send?.({ instanceId, at: sharedNow() } satisfies Start);
});
const perdure = await Perdure.open(process.argv[2] ?? '');
await perdure.startWorker(definitions);
process.once('disconnect', () => void perdure.close());
process.send?.('ready');
