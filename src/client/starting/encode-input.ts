import type { StandardSchema } from '../../model/definition.ts';
import { encodePayload, type Payload } from '../../model/values/payload.ts';
import { validateInput } from '../../model/values/validate-input.ts';

/**
 * Encodes what something is to be started with. Refused early, but stored as it was given: what the schema makes of it
 * is made anew wherever the code runs.
 */
export async function encodeInput(
  input: unknown,
  target: {
    readonly what: string;
    readonly schema: StandardSchema | undefined;
    readonly limitBytes: number;
  },
): Promise<Payload | null> {
  const { what, schema, limitBytes } = target;
  if (schema !== undefined) await validateInput(schema, input, what);
  return encodePayload(input, `The input of ${what}`, limitBytes);
}
