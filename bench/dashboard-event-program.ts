/** Raises the event `go` of an instance, and prints when, in milliseconds since the epoch. */
import { Perdure } from 'perdure';

const [store = '', id = ''] = process.argv.slice(2);
await using perdure = await Perdure.open(store);
const at = Date.now();
await perdure.client.raiseEvent(id, 'go');
process.stdout.write(JSON.stringify({ at }));
