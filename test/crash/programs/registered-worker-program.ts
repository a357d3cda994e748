/** Process with a registered worker: store, heartbeat in ms, error of its clock in ms. Runs until it is killed. */
import { Perdure, task } from '../../../src/index.ts';

const [store, heartbeat, offsetMs] = process.argv.slice(2);
if (store === undefined) throw new Error('Give the store.');
const offset = Number(offsetMs ?? 0);
if (offset !== 0) {
  const now = Date.now.bind(Date);
  Date.now = () => now() + offset;
}
const perdure = await Perdure.open(store);
await perdure.startWorker({
  name: 'remote',
  tasks: [task('mail', async () => 'sent')],
  heartbeat: Number(heartbeat),
});
process.once('disconnect', () => void perdure.close());
process.send?.('ready');
