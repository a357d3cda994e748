/** Cancels instances by filter from a separate process, and prints its cursor after each part, until it is killed. */
import { Perdure } from '../../../src/perdure.ts';

const { path, role } = JSON.parse(process.argv[2] ?? '') as {
  readonly path: string;
  readonly role: 'bulk' | 'worker';
};
process.on('disconnect', () => process.exit(1));

const perdure = await Perdure.open(path);
if (role === 'bulk') {
  await perdure.client.bulk.cancel(
    { name: 'waits' },
    { actor: 'ann', onProgress: (progress) => process.send?.(progress) },
  );
} else {
  const { waits } = await import('./bulk-orchestrations.ts');
  await perdure.startWorker({ orchestrations: [waits] });
  process.send?.('started');
}
