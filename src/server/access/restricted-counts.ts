import type { InstanceCount } from '../../providers/contract/instances.ts';
import type { ServerContext } from '../server-context.ts';
import { handlers } from '../handlers/table.ts';
import type { RequestOf } from '../routes/route.ts';
import type { Routes } from '../routes/table.ts';
import { allows } from './allowed-definitions.ts';
import type { Caller } from './tokens.ts';

type CountCall = RequestOf<Routes['countInstances']> & {
  readonly caller: Caller;
  readonly signal: AbortSignal;
  readonly lastEventId: string | undefined;
};

const defaultCap = 10_000;
// The names of one count of the store, and the number of such counts for one request.
const namesPerCount = 20;
const maxCounts = 10;

/**
 * Counts the instances that a restricted caller may see. Counts at most 200 names: beyond them the count is `capped`.
 * Instances of one name are counted once, so the sum of several counts is exact.
 */
export async function countAllowed(
  call: CountCall,
  context: ServerContext,
): Promise<InstanceCount> {
  const { cap = defaultCap } = call.query;
  const names = await allowedNames(call, context);
  let left = cap;
  for (let at = 0; at < names.length; at += namesPerCount) {
    if (at >= maxCounts * namesPerCount) return { count: cap - left, capped: true };
    const name = names.slice(at, at + namesPerCount);
    // At the cap, one more instance shows that the count is a lower bound.
    const query = { ...call.query, name, cap: Math.max(left, 1) };
    const { count, capped } = await handlers.countInstances({ ...call, query }, context);
    if (capped || count > left) return { count: Math.min(cap - left + count, cap), capped: true };
    left -= count;
  }
  return { count: cap - left, capped: false };
}

/** The names to count: those of the query that the caller may use, or all that its token allows. */
async function allowedNames(
  { query, caller }: CountCall,
  { definitionNames }: ServerContext,
): Promise<readonly string[]> {
  const isAllowed = (name: string): boolean => allows(caller, name);
  if (query.name !== undefined) return [...new Set(query.name)].filter(isAllowed);
  const patterns = caller.definitions?.patterns ?? [];
  if (patterns.every((pattern) => !pattern.includes('*'))) return [...new Set(patterns)];
  return [...(await definitionNames())].filter(isAllowed).toSorted();
}
