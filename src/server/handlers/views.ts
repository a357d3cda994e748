import { LocalClient } from '../../client/local-client.ts';
import { maxTimelinePage, readTimelineOptions } from '../../client/reading/timeline.ts';
import { readPayload } from '../../model/encoding/encoded-value.ts';
import { checkInstanceId } from '../../model/values/names.ts';
import { readWatchHistoryOptions, type WatchedEvent } from '../../client/watching/history-watch.ts';
import { readStreamOptions, type StreamEntry } from '../../client/watching/stream-reader.ts';
import { readWatchedIds, type InstanceChange } from '../../client/watching/watched-ids.ts';
import type { Role } from '../routes/route.ts';
import { roles } from '../routes/route.ts';
import { routes } from '../routes/table.ts';
import type { viewRoutes } from '../routes/views.ts';
import type { Handlers, ServerContext } from '../server-context.ts';
import { packageVersion } from '../package-version.ts';
import { toEventResponse } from './serializers.ts';

export const viewHandlers: Handlers<typeof viewRoutes> = {
  async watchHistory({ params, query, signal, lastEventId }, context) {
    const { after, ...payloads } = query;
    const known = lastEventId ?? after;
    const options = { ...payloads, ...(known !== undefined && { after: known }) };
    const { signal: _, ...call } = readWatchHistoryOptions(options);
    const { backend } = LocalClient.internals(context.client);
    const events = backend.views.watchHistory(checkInstanceId(params.id), call, signal);
    // Read before the stream starts, so that an unknown id gets 404. An event may come much later.
    await context.client.history(params.id, { limit: 1, payloads: 'none' });
    return toMessages(events, context.showStacks);
  },
  async streamInstance({ params, query, signal, lastEventId }, context) {
    const after = lastEventId ?? query.after;
    const { signal: _, ...call } = readStreamOptions(after === undefined ? {} : { after });
    const { views } = LocalClient.internals(context.client).backend;
    const id = checkInstanceId(params.id);
    // Checked before the stream starts, so that an unknown id gets 404. A chunk may come much later.
    await views.checkStream(id, call);
    return withEnd(views.stream(id, call, signal, readPayload));
  },
  getTimeline({ params, query }, { client }) {
    const { backend } = LocalClient.internals(client);
    const call = readTimelineOptions(query);
    const limit = Math.min(call.limit, maxTimelinePage);
    return backend.views.timeline(checkInstanceId(params.id), { ...call, limit });
  },
  readTree({ params, query }, { client }) {
    return client.tree(params.id, query);
  },
  watchInstances({ body, signal }, context) {
    return watchInstances(body.ids, signal, context);
  },
  async me({ caller }, { storeKind }) {
    const definitions = caller.definitions?.patterns;
    return {
      name: caller.name,
      role: caller.role,
      ...(definitions !== undefined && { definitions: [...definitions] }),
      server: { version: packageVersion() },
      store: { kind: storeKind },
      capabilities: Object.entries(routes)
        .filter(([, { role }]) => role === 'public' || includes(caller.role, role))
        .map(([name]) => name),
    };
  },
};

function includes(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed);
}

/** Streams the states of instances. */
export async function* watchInstances(
  ids: readonly string[],
  signal: AbortSignal,
  { client }: ServerContext,
): AsyncGenerator<{ kind: 'instances'; items: InstanceChange[] }, void, undefined> {
  const { backend } = LocalClient.internals(client);
  for await (const items of backend.views.watch(readWatchedIds(ids), signal)) {
    yield { kind: 'instances', items: [...items] };
  }
}

async function* withEnd(
  entries: AsyncIterable<StreamEntry>,
): AsyncGenerator<StreamEntry | { readonly kind: 'end' }, void, undefined> {
  yield* entries;
  yield { kind: 'end' };
}

async function* toMessages(
  events: AsyncIterable<WatchedEvent>,
  showStacks: boolean,
): AsyncGenerator<({ kind: 'event' } & WatchedEvent) | { readonly kind: 'end' }, void, undefined> {
  for await (const one of events) {
    yield { kind: 'event', ...one, event: toEventResponse(one.event, showStacks) };
  }
  yield { kind: 'end' };
}
