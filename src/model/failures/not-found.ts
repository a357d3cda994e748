import { PerdureError } from './errors.ts';

/** There is no instance with this id. */
export function notFound(instanceId: string): PerdureError {
  return new PerdureError(
    'INSTANCE_NOT_FOUND',
    `There is no instance ${JSON.stringify(instanceId)} in this store. Check the id, or whether it was deleted.`,
  );
}
