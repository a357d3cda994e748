/** A worker process that runs the definitions of the benchmarks until its parent exits. */
import { Perdure } from 'perdure';
import { definitions } from './definitions.ts';

const perdure = await Perdure.open(process.argv[2] ?? '');
await perdure.startWorker(definitions);
process.once('disconnect', () => void perdure.close());
process.send?.('ready');
