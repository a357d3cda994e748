import {
  matchNames,
  readNamePatterns,
  type NameMatcher,
} from '../../management/instance-filter.ts';
import { isPerdureError, PerdureError } from '../../model/failures/errors.ts';
import { HttpError } from '../http/errors.ts';
import type { Caller } from './tokens.ts';

/** The definitions that a restricted caller may use, as name patterns. */
export class AllowedDefinitions {
  readonly patterns: readonly string[];
  readonly #matches: NameMatcher;

  constructor(patterns: readonly string[]) {
    this.patterns = patterns;
    this.#matches = matchNames(patterns);
  }

  /**
   * Whether a name is allowed, or every name that a pattern matches. A `*` in the argument only matches a `*` of an
   * allowed pattern, so an argument with `*` never allows more than that pattern.
   */
  has(name: string): boolean {
    return this.#matches(name);
  }
}

/** Reads the `definitions` of a token. Returns `undefined` if the token is not restricted. */
export function readDefinitions(option: string, value: unknown): AllowedDefinitions | undefined {
  const patterns = readNamePatterns(option, value);
  return patterns && new AllowedDefinitions(patterns);
}

export function allows({ definitions }: Caller, name: string): boolean {
  return definitions === undefined || definitions.has(name);
}

/** Whether a caller may read and use the sessions of other callers. */
export function isUnrestrictedAdmin({ role, definitions }: Caller): boolean {
  return role === 'admin' && definitions === undefined;
}

/** 403 for a definition that the caller must not use. */
export function forbiddenDefinition(name: string): HttpError {
  return new HttpError(
    'FORBIDDEN',
    `The token does not allow the definition ${JSON.stringify(name)}. Add it to the \`definitions\` of the token.`,
    { status: 403, reason: 'definition' },
  );
}

/** Removes the name of another definition from `INSTANCE_ALREADY_EXISTS` for restricted callers. */
export async function hideDefinitionName<Value>(
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
