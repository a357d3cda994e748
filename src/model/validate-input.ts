import type { StandardSchema } from './definition.ts';
import { PerdureError } from './errors.ts';

/** Returns the value as the schema parsed it, or throws `INVALID_INPUT` with what is wrong and where. */
export async function validateInput(
  schema: StandardSchema | undefined,
  value: unknown,
  what: string,
): Promise<unknown> {
  if (schema === undefined) return value;
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return result.value;
  const problems = result.issues.slice(0, 10).map(describe).join('; ');
  throw new PerdureError(
    'INVALID_INPUT',
    `${what} was given an input that its schema refuses: ${problems}.`,
  );
}

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

function describe(issue: Issue): string {
  const path = (issue.path ?? [])
    .map((segment) => String(typeof segment === 'object' ? segment.key : segment))
    .join('.');
  return path === '' ? issue.message : `${path}: ${issue.message}`;
}
