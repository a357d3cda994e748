import { PerdureError, type Client } from '../../index.ts';
import type { RunInput } from '../definition/graph.ts';

/** What a run was started with; `undefined` while nobody has begun it. */
export async function readRunInput(client: Client, id: string): Promise<RunInput | undefined> {
  const { items } = await client.history(id, { limit: 1 });
  const first = items[0]?.event;
  if (first?.kind !== 'executionStarted') return undefined;
  return decodeRunInput(id, first.payload);
}

/** Reads the input of a run; throws for an instance that is none. */
export function decodeRunInput(id: string, payload: string | null): RunInput {
  const input = JSON.parse(payload ?? 'null') as Partial<RunInput> | null;
  if (typeof input === 'object' && input?.flow?.format === 1) return input as RunInput;
  throw new PerdureError(
    'INVALID_INPUT',
    `Instance '${id}' is not a run of a flow that this version can read. Look at it with client.get() and client.history().`,
  );
}
