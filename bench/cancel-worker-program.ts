/** The worker process of a cancel: runs the activities, and reports what its handlers observe. */
import { Perdure } from 'perdure';
import { createHolding } from './cancel-definitions.ts';
import { sharedNow } from './cancel-latencies.ts';

const report = (key: string): void => void process.send?.({ key, at: sharedNow() });

const { definitions } = createHolding({
  started: (instanceId) => report(`started ${instanceId}`),
  told: (instanceId) => report(`told ${instanceId}`),
});
const perdure = await Perdure.open(process.argv[2] ?? '');
await perdure.startWorker(definitions);
process.once('disconnect', () => void perdure.close());
report('ready');
