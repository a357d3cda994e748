import type { BulkOptions, BulkResult, Client } from '../../../src/index.ts';

/** The bulk operations of the operators test. */
export type BulkRole = 'retry' | 'pause' | 'resume' | 'cancel';

/** Runs a bulk operation on the instances of the operators test. A call with a cursor continues it with equal options. */
export function runBulk(
  { bulk }: Client,
  role: BulkRole,
  given: Pick<BulkOptions, 'cursor' | 'limit' | 'onProgress'>,
): Promise<BulkResult> {
  const options = { actor: 'ann', ...given };
  const filter = { name: 'ships' };
  switch (role) {
    case 'retry':
      return bulk.retry({ ...filter, status: 'failed' }, { from: 'failure', ...options });
    case 'pause':
      return bulk.pause(filter, options);
    case 'resume':
      return bulk.resume(filter, options);
    case 'cancel':
      return bulk.cancel(filter, options);
  }
}
