/** A worker whose code may block its event loop. It replies to messages while it is not blocked. */
import { Perdure } from '../../../src/index.ts';
import { createBlocking } from './blocking-definitions.ts';

const [, , store = '', settings = '{}'] = process.argv;
const { schema, isMended, ...options } = JSON.parse(settings) as {
  readonly schema?: string;
  readonly isMended: boolean;
};
const perdure = await Perdure.open(store, schema === undefined ? {} : { schema });
await perdure.startWorker({ ...createBlocking(isMended), ...options });
process.on('message', () => process.send?.('alive'));
process.on('disconnect', () => process.exit());
process.send?.('ready');
