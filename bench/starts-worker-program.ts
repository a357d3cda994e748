/** The worker process of a cancel during a batch: reports when each handler starts. */
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
