/** Raises the event `go` of each instance that it reads from its parent, and sends when, in milliseconds since the epoch. */
import { Perdure } from 'perdure';

const perdure = await Perdure.open(process.argv[2] ?? '');
process.on('message', (id: string) => {
  const at = Date.now();
  void perdure.client.raiseEvent(id, 'go').then(() => process.send?.(at));
});
process.once('disconnect', () => void perdure.close());
process.send?.('ready');
