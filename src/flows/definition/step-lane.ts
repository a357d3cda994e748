import { follow, pathOf, referencesTo, type Path } from './reference.ts';
import { invalidFlow, quote } from './flow-errors.ts';
import type { FrozenCall } from './graph.ts';

const maxWeight = 100;

/** The key of a step: a path to it, or constant call options. */
interface StepLane {
  readonly key?: Path;
  readonly call?: Pick<FrozenCall, 'key' | 'weight'>;
}

/** Reads the key and the weight of a step. Throws `INVALID_FLOW` for invalid ones. */
export function toLane(
  what: string,
  { key, weight }: { readonly key?: unknown; readonly weight?: unknown },
  readable: readonly string[],
): StepLane {
  if (weight !== undefined) checkWeight(what, key, weight);
  const weighted = weight !== undefined && { weight: weight as number };
  if (key === undefined) return {};
  if (typeof key === 'string' && key !== '') return { call: { key, ...weighted } };
  if (typeof key !== 'function') throw invalidKey(what, readable);
  const path = pathOf(
    (key as (given: object) => unknown)(referencesTo(readable, `\`key\` of ${what}`)),
  );
  if (path === undefined) throw invalidKey(what, readable);
  return { key: path, ...(weight !== undefined && { call: { weight: weight as number } }) };
}

/** Returns the key at a path of a run's values. A number is a key, too. */
export function keyAt(
  [source, ...keys]: Path,
  values: { readonly input: unknown; outputOf(step: string): unknown },
): string | undefined {
  const value = follow(source === 'input' ? values.input : values.outputOf(source), keys);
  // Other values are passed on: the call rejects them.
  return typeof value === 'number' ? String(value) : ((value ?? undefined) as string | undefined);
}

function checkWeight(what: string, key: unknown, weight: unknown): void {
  if (key === undefined) {
    throw invalidFlow(`\`weight\` of ${what} has no \`key\`. Add a \`key\`, or omit \`weight\`.`);
  }
  const share = weight as number;
  if (Number.isSafeInteger(share) && share >= 1 && share <= maxWeight) return;
  throw invalidFlow(
    `Invalid \`weight\` ${quote(weight)} of ${what}: must be an integer from 1 to ${maxWeight}.`,
  );
}

function invalidKey(what: string, readable: readonly string[]): Error {
  return invalidFlow(
    `\`key\` of ${what} must be a text that is not empty, or return a reference, such as ({ input }) => input.tenant. Available: ${readable.join(', ')}.`,
  );
}
