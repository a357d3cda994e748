import type { EventToken, StandardSchema } from '../model/definition.ts';
import { checkName } from '../model/names.ts';
import { checkOptions, checkSchema } from './definition-checks.ts';

/** Names an external event and the type of its payload, for `raiseEvent` and `waitFor`. */
export function event<Value = undefined>(
  name: string,
  options: { readonly schema?: StandardSchema<Value> | undefined } = {},
): EventToken<Value> {
  const what = `event '${checkName(name, 'Event name')}'`;
  checkOptions(what, options, ['schema']);
  return Object.freeze({ kind: 'event', name, schema: checkSchema(options.schema, what) });
}
