import type { EventToken } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import {
  readOnConflict,
  refuseTaskEvent,
  type ConflictPlan,
  type EncodedEvent,
  type OnConflict,
  type StartEvent,
} from '../model/admission-options.ts';
import { checkEventKey, checkName } from '../model/values/names.ts';
import { encodePayload } from '../model/values/payload.ts';
import { validateEvent } from '../model/values/validate-input.ts';

/** Options of `ctx.child` and `ctx.startDetached` for an id that is taken. */
export interface ConflictOptions {
  readonly id?: string | undefined;
  readonly event?: StartEvent | undefined;
  readonly onConflict?: OnConflict | undefined;
}

/** Checks the options of a child or a detached start for an id that is taken, and encodes its event. */
export function readConflict(
  where: string,
  options: ConflictOptions,
  limitBytes: number,
): { readonly event?: EncodedEvent; readonly onConflict?: ConflictPlan } {
  const onConflict = readOnConflict({ ...options });
  const { event } = options;
  return {
    ...(event !== undefined && { event: encodeEvent(where, event, limitBytes) }),
    ...(onConflict !== undefined && { onConflict }),
  };
}

function encodeEvent(where: string, event: StartEvent, limitBytes: number): EncodedEvent {
  const given = readFields(event, `\`event\` of ${where}`, ['token', 'payload', 'key'] as const);
  const { name, schema } = readToken(given.token);
  validateEvent(schema, given.payload, name);
  const payload = encodePayload(
    given.payload,
    `The payload of event ${JSON.stringify(name)}`,
    limitBytes,
  );
  return { name, payload, ...(given.key !== undefined && { key: checkEventKey(given.key) }) };
}

function readToken(token: unknown): Pick<EventToken, 'name' | 'schema'> {
  if (typeof token === 'string') return { name: checkName(token, 'Event name'), schema: undefined };
  const given = token as Partial<EventToken> | null | undefined;
  if (given?.kind !== 'event') throw invalidOption('event.token', token, 'an event or its name');
  return { name: checkName(given.name, 'Event name'), schema: given.schema };
}

/** Throws `INVALID_OPTION` for the options that `ctx.runTask()` has no use for, with the reason. */
export function refuseTaskConflict(options: object): void {
  refuseTaskEvent(options, 'ctx.runTask()');
  if ((options as { readonly onConflict?: unknown }).onConflict === undefined) return;
  throw new PerdureError(
    'INVALID_OPTION',
    '`onConflict` in ctx.runTask(): the call has no id that could be taken. Use client.runTask() in an activity or a step for a run with an id.',
  );
}
