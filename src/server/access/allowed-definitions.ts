import { matchNames, readNamePatterns, type NameMatcher } from '../../management/instance-filter.ts';
import { isPerdureError, PerdureError } from '../../model/failures/errors.ts';
import { Refusal } from '../http/refusal.ts';
import type { Caller } from './tokens.ts';

/** The definitions that a caller is restricted to, as patterns of names. */
export class AllowedDefinitions {
  readonly patterns: readonly string[];
  readonly #matches: NameMatcher;

  constructor(patterns: readonly string[]) {
    this.patterns = patterns;
    this.#matches = matchNames(patterns);
  }

  /**
   * Whether a name is allowed, or everything that a pattern matches. A `*` in the argument can only be matched by a `*`
   * of an allowed pattern, which matches every text in its place.
   */
  has(name: string): boolean {
    return this.#matches(name);
  }
}

/** Reads the `definitions` of a token; absent: no restriction. */
export function readDefinitions(option: string, value: unknown): AllowedDefinitions | undefined {
  const patterns = readNamePatterns(option, value);
  return patterns && new AllowedDefinitions(patterns);
}

/** Whether a caller may use a definition. */
export function allows({ definitions }: Caller, name: string): boolean {
  return definitions === undefined || definitions.has(name);
}

/** Whether a caller may see and use the sessions of other callers. */
export function isUnrestrictedAdmin({ role, definitions }: Caller): boolean {
  return role === 'admin' && definitions === undefined;
}

/** A definition that the caller names and may not use. */
export function forbiddenDefinition(name: string): Refusal {
  return new Refusal(
    'FORBIDDEN',
    `The token does not allow the definition ${JSON.stringify(name)}. Add it to the \`definitions\` of the token.`,
    { status: 403, reason: 'definition' },
  );
}

/** Keeps the name of another definition out of the error for a taken id, where the caller may not know it. */
export async function withoutNames<Value>(
  { definitions }: Caller,
  id: string | undefined,
  work: Promise<Value>,
): Promise<Value> {
  try {
    return await work;
  } catch (error) {
    if (definitions === undefined || !isPerdureError(error, 'INSTANCE_ALREADY_EXISTS')) throw error;
    throw new PerdureError(
      'INSTANCE_ALREADY_EXISTS',
      `Instance ${JSON.stringify(id ?? '')} already exists with another definition or input. Choose another id.`,
    );
  }
}
