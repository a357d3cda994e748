import type { ReadEventsParams, ViewedEvent } from 'perdure/provider';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider } from './broken-provider.ts';

/** Changes the parameters of readEvents(). */
function withParams(
  provider: Provider,
  change: (params: ReadEventsParams) => ReadEventsParams,
): Partial<Provider> {
  return { readEvents: (params) => provider.readEvents(change(params)) };
}

function without(params: ReadEventsParams, key: keyof ReadEventsParams): ReadEventsParams {
  return Object.fromEntries(
    Object.entries(params).filter(([name]) => name !== key),
  ) as unknown as ReadEventsParams;
}

/** Changes the events of a page. */
function withEvents(
  provider: Provider,
  change: (events: readonly ViewedEvent[], params: ReadEventsParams) => readonly ViewedEvent[],
): Partial<Provider> {
  return {
    async readEvents(params) {
      const view = await provider.readEvents(params);
      return view && { ...view, events: change(view.events, params) };
    },
  };
}

export const brokenViews: readonly BrokenProvider[] = [
  {
    fault: 'readEvents() returns the newest events in ascending order',
    rejectedBy: 'view/events-come-from-either-end',
    override: ({ provider }) =>
      withEvents(provider, (events) =>
        events.toSorted((one, other) => one.eventId - other.eventId),
      ),
  },
  {
    fault: 'the next page of readEvents() starts one event too late',
    rejectedBy: 'view/event-pages-have-no-gaps',
    override: ({ provider }) => ({
      async readEvents(params) {
        const view = await provider.readEvents(params);
        if (view === undefined || view.next === null) return view;
        return { ...view, next: view.next + (params.order === 'asc' ? 1 : -1) };
      },
    }),
  },
  {
    fault: 'readEvents() ignores the kinds',
    rejectedBy: 'view/events-are-filtered',
    override: ({ provider }) => withParams(provider, (params) => without(params, 'kinds')),
  },
  {
    fault: 'readEvents() ignores the wanted data',
    rejectedBy: 'view/events-are-filtered',
    override: ({ provider }) => withParams(provider, (params) => without(params, 'dataIncludes')),
  },
  {
    fault: 'a filter of readEvents() examines the whole history',
    rejectedBy: 'view/a-filter-examines-a-bounded-number',
    override: ({ provider }) =>
      withParams(provider, (params) => ({ ...params, maxScanned: 1_000_000 })),
  },
  {
    fault: 'readEvents() cuts payloads in the middle of a character',
    rejectedBy: 'view/payloads-are-cut-between-characters',
    override: ({ provider }) => ({
      async readEvents({ headBytes, ...params }) {
        const view = await provider.readEvents(params);
        if (view === undefined || headBytes === undefined) return view;
        const cut = (text: string | null) =>
          text === null || headBytes === 0
            ? null
            : Buffer.from(text).subarray(0, headBytes).toString();
        return {
          ...view,
          events: view.events.map((event) => ({ ...event, payload: cut(event.payload) })),
        };
      },
    }),
  },
  {
    fault: 'readEvents() returns the size of the head as the size of the payload',
    rejectedBy: 'view/payloads-are-cut-between-characters',
    override: ({ provider }) =>
      withEvents(provider, (events) =>
        events.map((event) => ({
          ...event,
          payloadBytes: event.payload === null ? null : Buffer.byteLength(event.payload),
        })),
      ),
  },
  {
    fault: 'readEvents() ignores maxBytes',
    rejectedBy: 'view/event-pages-end-at-their-bytes',
    override: ({ provider }) =>
      withParams(provider, (params) => ({ ...params, maxBytes: Number.MAX_SAFE_INTEGER })),
  },
  {
    fault: 'readEvents() reads the current execution instead of an unknown one',
    rejectedBy: 'view/events-of-the-unknown',
    override: ({ provider }) => withParams(provider, (params) => without(params, 'executionId')),
  },
  {
    fault: 'readTree() returns children before their parents',
    rejectedBy: 'view/a-tree-comes-depth-first',
    override: ({ provider }) => ({
      async readTree(params) {
        const tree = await provider.readTree(params);
        return tree && { ...tree, nodes: tree.nodes.toReversed() };
      },
    }),
  },
  {
    fault: 'readTree() drops the last node of a full page',
    rejectedBy: 'view/tree-pages-have-no-gaps',
    override: ({ provider }) => ({
      async readTree(params) {
        const tree = await provider.readTree(params);
        if (tree === undefined || tree.next === null) return tree;
        return { ...tree, nodes: tree.nodes.slice(0, -1) };
      },
    }),
  },
  {
    fault: 'readTree() ignores maxDepth',
    rejectedBy: 'view/a-tree-is-bounded',
    override: ({ provider }) => ({
      readTree: (params) => provider.readTree({ ...params, maxDepth: 10 }),
    }),
  },
  {
    fault: 'readTree() starts again after a path of another tree',
    rejectedBy: 'view/a-path-of-another-tree-is-unknown',
    override: ({ provider }) => ({
      async readTree({ after, ...params }) {
        const tree = await provider.readTree({ ...params, ...(after && { after }) });
        return tree ?? provider.readTree(params);
      },
    }),
  },
  {
    fault: 'readVersions() drops missing instances',
    rejectedBy: 'view/versions-come-in-the-order-asked',
    override: ({ provider }) => ({
      readVersions: async (ids) =>
        (await provider.readVersions(ids)).filter((found) => found !== undefined),
    }),
  },
  {
    fault: 'the version of an instance has only its status',
    rejectedBy: 'view/every-change-has-a-version',
    override: ({ provider }) => ({
      readVersions: async (ids) =>
        (await provider.readVersions(ids)).map(
          (found) => found && { ...found, version: found.status },
        ),
    }),
  },
  {
    fault: 'the version of an instance ignores a pause',
    rejectedBy: 'view/every-change-has-a-version',
    override: ({ provider }) => ({
      readVersions: async (ids) =>
        (await provider.readVersions(ids)).map(
          (found) => found && { ...found, version: found.version.replace(/\d*$/, '') },
        ),
    }),
  },
  {
    fault: 'the version of a task run ignores its attempts',
    rejectedBy: 'view/every-change-of-a-task-has-a-version',
    override: ({ provider }) => ({
      readVersions: async (ids) =>
        (await provider.readVersions(ids)).map(
          (found) => found && { ...found, version: found.status },
        ),
    }),
  },
  {
    fault: 'a commit is not reported',
    rejectedBy: 'hint/tells-of-commits',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'committed') listener(hint);
        }),
    }),
  },
];
