import type { EventToken, StandardSchema } from '../model/definition.ts';
import { checkName } from '../model/values/names.ts';
import { checkOptions, checkSchema } from './definition-checks.ts';

/**
 * Names an external event and the type of its payload, for `raiseEvent` and `waitFor`. A schema checks the payload
 * where it is raised and where it is received; it must be synchronous.
 */
export function event<Parsed = undefined, Value = Parsed>(
  name: string,
  options: { readonly schema?: StandardSchema<Value, Parsed> | undefined } = {},
): EventToken<Value, Parsed> {
  const what = `event '${checkName(name, 'Event name')}'`;
  checkOptions(what, options, ['schema']);
  return Object.freeze({ kind: 'event', name, schema: checkSchema(options.schema, what) });
}
