import { notFound } from '../../model/failures/errors.ts';
import { toWireError } from '../http/errors.ts';
import type { ServerContext } from '../server-context.ts';
import { allows } from './allowed-definitions.ts';
import type { Caller } from './tokens.ts';

// An instance whose definition the caller must not use is not found.

/** A call of a route with an instance id in its path. */
export interface InstanceCall {
  readonly params: { readonly id: string };
  readonly caller: Caller;
}

/** Throws `INSTANCE_NOT_FOUND` unless the caller may use the instance. */
export async function assertVisible(
  { params, caller }: InstanceCall,
  context: ServerContext,
): Promise<void> {
  const hidden = await hiddenIds([params.id], caller, context);
  if (hidden.length > 0) throw notFound(params.id);
}

/** Returns the ids that are unknown or have a definition that the caller must not use. */
export async function hiddenIds(
  ids: readonly string[],
  caller: Caller,
  { namesOf }: ServerContext,
): Promise<readonly string[]> {
  const names = await namesOf(ids);
  return ids.filter((_, index) => {
    const name = names[index];
    return name === undefined || !allows(caller, name);
  });
}

/** Returns the error of each position whose instance the caller must not use. */
export async function missingPlaces(
  ids: readonly string[],
  caller: Caller,
  context: ServerContext,
) {
  const hidden = new Set(await hiddenIds(ids, caller, context));
  return ids.flatMap((id, place) =>
    hidden.has(id) ? [{ place, error: toWireError(notFound(id), false) }] : [],
  );
}

/** Returns the result for an instance that the caller must not use. */
export function toMissing(id: string) {
  return { id, error: toWireError(notFound(id), false) };
}
