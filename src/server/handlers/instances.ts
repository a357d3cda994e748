import { toInstanceInfo, type InstanceInfo } from '../../client/reading/instance-info.ts';
import type { ListFilter } from '../../client/reading/instance-list.ts';
import { readWatchedIds } from '../../client/watching/watched-ids.ts';
import { isPerdureError, notFound } from '../../model/failures/errors.ts';
import { withAttempt } from '../../model/values/start-attempt.ts';
import { isTerminal } from '../../model/status.ts';
import type { InstanceRecord } from '../../providers/contract/instances.ts';
import { HttpError, toWireError } from '../http/errors.ts';
import { toStartOptions } from './start-options.ts';
import { firstSettled, pageByBytes } from './long-poll.ts';
import type { instanceRoutes } from '../routes/instances.ts';
import { longestPollMs } from '../routes/route.ts';
import { actorOf } from '../access/tokens.ts';
import type { Handlers, ServerContext } from '../server-context.ts';
import {
  toHistoryResponse,
  toInstanceResponse,
  toExportChunks,
  toWhyResponse,
} from './serializers.ts';

export const instanceHandlers: Handlers<typeof instanceRoutes> = {
  async startInstance({ body }, { client }) {
    const { name, input, ...options } = body;
    const handle = await client.start(name, input, toStartOptions(options));
    return { id: handle.id, created: handle.created };
  },
  async listInstances({ query }, { client, showStacks }) {
    const { limit, cursor, payloads, orderBy, ...filter } = query;
    const page = await client.list(toFilter(filter), { limit, cursor, payloads, orderBy });
    return { ...page, items: page.items.map((info) => toInstanceResponse(info, showStacks)) };
  },
  countInstances({ query }, { client }) {
    const { cap, ...filter } = query;
    return client.count(toFilter(filter), { cap });
  },
  async listDefinitions(_, { client }) {
    return { items: await client.definitions() };
  },
  async getInstance({ params }, { client, showStacks }) {
    const info = await client.get(params.id);
    if (info === undefined) throw notFound(params.id);
    return toInstanceResponse(info, showStacks);
  },
  async measureInstance({ params }, { client, showStacks }) {
    return toInstanceResponse(await client.getInstanceInfo(params.id), showStacks);
  },
  async waitForInstance({ params, query, signal }, context) {
    const { timeoutMs = longestPollMs } = query;
    const [ended] = await firstSettled(timeoutMs, signal, (inner) => [
      waitFor(params.id, inner, context),
    ]);
    if (ended !== undefined) return { over: true, instance: ended };
    const info = await context.client.get(params.id);
    if (info === undefined) throw notFound(params.id);
    return {
      over: isTerminal(info.status),
      instance: toInstanceResponse(info, context.showStacks),
    };
  },
  async waitForInstances({ body, signal }, context) {
    const { ids, timeoutMs = longestPollMs } = body;
    const results = await firstSettled(timeoutMs, signal, (inner) =>
      [...new Set(ids)].map(async (id) => {
        try {
          return { id, record: await context.completions.wait(id, undefined, inner) };
        } catch (error) {
          // The server is closing: the client repeats the request.
          const isClosing = inner.aborted || isPerdureError(error, 'CLOSED');
          if (isClosing || !isPerdureError(error)) throw error;
          return { id, error: toWireError(error, context.showStacks) };
        }
      }),
    );
    const lengthOf = (one: (typeof results)[number]): number =>
      'record' in one ? (one.record.output?.length ?? 0) : 0;
    return {
      results: pageByBytes(results, lengthOf).map((one) =>
        'record' in one ? { id: one.id, instance: toResponse(one.record, context) } : one,
      ),
    };
  },
  async raiseEvent({ params, body }, { client }) {
    const { name, payload, key } = body;
    await client.raiseEvent(params.id, name, payload, { key });
    return {};
  },
  async getInstanceTree({ params }, { client }) {
    const tree = await client.getInstanceTree(params.id);
    const { allIds, size } = tree;
    const fitting = pageByBytes(allIds, (id) => id.length);
    if (fitting.length < allIds.length) throw treeTooLarge(params.id, size);
    return tree;
  },
  cancelInstance({ params, body, caller }, { client }) {
    return client.cancel(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
  terminateInstance({ params, body, caller }, { client }) {
    return client.terminate(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
  retryInstance({ params, body, caller }, { client }) {
    return client.retry(params.id, { ...body, actor: actorOf(caller, body.actor) });
  },
  async forkInstance({ params, body, caller }, { client }) {
    const actor = actorOf(caller, body.actor);
    const { id } = await client.fork(params.id, withAttempt({ ...body, actor }));
    return { id };
  },
  async getHistory({ params, query }, { client, showStacks }) {
    return toHistoryResponse(await client.history(params.id, query), showStacks);
  },
  async exportHistory({ params, query }, { openExport, showStacks }) {
    return toExportChunks(await openExport(params.id, query.executionId), showStacks);
  },
  listExecutions({ params, query }, { client }) {
    return client.listExecutions(params.id, query);
  },
  async listRunning({ params }, { client }) {
    return { items: [...(await client.running(params.id))] };
  },
  async explainInstance({ params, caller }, { explain, showStacks }) {
    return toWhyResponse(await explain(params.id, caller), showStacks);
  },
  async explainInstances({ body, caller }, { explainMany, showStacks }) {
    const found = await explainMany(readWatchedIds(body.ids), caller);
    return {
      items: found.map((one) => ({
        ...one,
        instance: toInstanceResponse(one.instance, showStacks),
      })),
    };
  },
  async watchInstance({ params, signal }, context) {
    // Checked before the stream starts, so that an unknown id gets 404.
    if ((await context.client.get(params.id)) === undefined) throw notFound(params.id);
    return watch(params.id, signal, context);
  },
};

async function* watch(
  id: string,
  signal: AbortSignal,
  { client, changes, showStacks }: ServerContext,
): AsyncGenerator<InstanceInfo, void, undefined> {
  let before = '';
  for await (const _ of changes.wakeups(id, signal)) {
    const info = await client.get(id);
    if (info === undefined) throw notFound(id);
    const response = toInstanceResponse(info, showStacks);
    const text = JSON.stringify(response);
    if (text !== before) yield response;
    before = text;
    if (isTerminal(info.status)) return;
  }
}

function treeTooLarge(id: string, size: number): HttpError {
  return new HttpError(
    'PAYLOAD_TOO_LARGE',
    `The tree of ${JSON.stringify(id)} has ${size} instances, which exceed one response of 8 MiB. List it level by level: GET /v1/instances?parentId=<id>.`,
    { status: 413 },
  );
}

async function waitFor(id: string, signal: AbortSignal, context: ServerContext) {
  return toResponse(await context.completions.wait(id, undefined, signal), context);
}

function toResponse(record: InstanceRecord, { showStacks }: ServerContext) {
  return toInstanceResponse(toInstanceInfo(record), showStacks);
}

/** Converts the tags of a query: `name=value` each. */
function toFilter<Query extends { readonly tag?: readonly string[] | undefined }>({
  tag,
  ...filter
}: Query): Omit<Query, 'tag'> & Pick<ListFilter, 'tags'> {
  if (tag === undefined) return filter;
  const entries = tag.map((text) => {
    const end = text.indexOf('=');
    return [text.slice(0, end), text.slice(end + 1)] as const;
  });
  return { ...filter, tags: Object.fromEntries(entries) };
}
