import { notFound } from '../../model/failures/errors.ts';
import type { ResponseOf } from '../routes/route.ts';
import type { RouteName, Routes } from '../routes/table.ts';
import type { ServerContext } from '../server-context.ts';
import { allows } from './allowed-definitions.ts';
import type { Caller } from './tokens.ts';
import { assertVisible, type InstanceCall } from './visible-instances.ts';

// The streams of callers that are restricted to some definitions.

type MessageOf<Name extends RouteName> = ResponseOf<Routes[Name]>;
type Allowed<Name extends RouteName> = AsyncGenerator<MessageOf<Name>, void, undefined>;

/** Checks each message: the id may be reused by another definition during the stream. */
export async function* watchAllowed(
  { params, caller }: InstanceCall,
  messages: AsyncIterable<MessageOf<'watchInstance'>>,
): Allowed<'watchInstance'> {
  for await (const message of messages) {
    if (!allows(caller, message.name)) throw notFound(params.id);
    yield message;
  }
}

/** Checks each event: the id may be reused by another definition during the stream. */
export async function* eventsOfAllowed(
  call: InstanceCall,
  messages: AsyncIterable<MessageOf<'watchHistory'>>,
  context: ServerContext,
): Allowed<'watchHistory'> {
  let executionId = 0;
  for await (const message of messages) {
    // The watch ends if another instance replaces the first one, so one check per execution suffices.
    if (message.kind === 'event' && message.executionId !== executionId) {
      await assertVisible(call, context);
      executionId = message.executionId;
    }
    yield message;
  }
}

/** Checks the first message: the id may be reused before the stream starts. A stream ends with its instance. */
export async function* streamOfAllowed(
  call: InstanceCall,
  messages: AsyncIterable<MessageOf<'streamInstance'>>,
  context: ServerContext,
): Allowed<'streamInstance'> {
  let isChecked = false;
  for await (const message of messages) {
    if (!isChecked) await assertVisible(call, context);
    isChecked = true;
    yield message;
  }
}

/** Shows instances of other definitions as missing in each message. */
export async function* instancesOfAllowed(
  { caller }: { readonly caller: Caller },
  messages: AsyncIterable<MessageOf<'watchInstances'>>,
): Allowed<'watchInstances'> {
  for await (const message of messages) yield hideForbidden(caller, message);
}

/** Shows instances of other definitions as missing. */
function hideForbidden(
  caller: Caller,
  message: MessageOf<'watchInstances'>,
): MessageOf<'watchInstances'> {
  return {
    ...message,
    items: message.items.map((one) =>
      one.name === undefined || allows(caller, one.name)
        ? one
        : { id: one.id, status: null, executionId: 0, customStatusVersion: 0, version: '' },
    ),
  };
}

/** Filters changes by allowed definitions. Drops metrics, which concern the whole store. */
export async function* changesOfAllowed(
  { caller }: { readonly caller: Caller },
  messages: AsyncIterable<MessageOf<'watchChanges'>>,
  { namesOfChanged }: ServerContext,
): Allowed<'watchChanges'> {
  for await (const message of messages) {
    if (message.kind === 'figures') continue;
    if (message.kind === 'instances') {
      yield hideForbidden(caller, message);
      continue;
    }
    const names = await namesOfChanged(message.ids);
    const ids = message.ids.filter((id) => {
      const name = names.get(id);
      return name !== undefined && allows(caller, name);
    });
    if (ids.length > 0 || ('missed' in message && message.missed)) yield { ...message, ids };
  }
}
