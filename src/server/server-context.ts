import { LocalClient } from '../client/local-client.ts';
import { explainInstance } from '../client/explaining/explain-instance.ts';
import {
  explainInstances,
  type ExplainedInstance,
} from '../client/explaining/explain-instances.ts';
import { readAttention, type AttentionReads } from '../client/explaining/read-attention.ts';
import { listDefinitionNames } from '../client/reading/instance-counts.ts';
import type { DefinitionQueueInfo } from '../client/reading/queues.ts';
import { openHistoryExport, type HistoryExport } from '../client/reading/history.ts';
import type { Why } from '../client/explaining/why.ts';
import type { LocalBulk } from '../client/local-backend.ts';
import type { LocalJobs } from '../client/local-jobs.ts';
import { sendJob } from '../client/starting/traced-call.ts';
import type { LocalUpdates } from '../client/updating/local-updates.ts';
import type { LocalStates } from '../client/local-states.ts';
import type { CompletionWaiter } from '../client/waiting/completion-waiter.ts';
import type { FlowDefinition } from '../flows/definition/flow-definition.ts';
import type { JobRequest } from '../jobs/backend.ts';
import type { Clock } from '../model/clock.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { allows } from './access/allowed-definitions.ts';
import { JobBindings, SessionOwners } from './access/session-access.ts';
import type { Caller } from './access/tokens.ts';
import type { CheckedOptions } from './handler.ts';
import { makeOpenApi } from './open-api.ts';
import { ChangeFeed } from './monitoring/change-feed.ts';
import { SharedReads } from './monitoring/shared-reads.ts';
import type { ServerMetrics } from './monitoring/server-metrics.ts';
import type { ResponseOf, RequestOf, RouteShape } from './routes/route.ts';

/** The services that handlers use. One per server. */
export interface ServerContext {
  readonly client: LocalClient;
  readonly clock: Clock;
  /** Queries the store, at most once per second. Rejects if the store is not available. */
  readonly checkHealth: () => Promise<void>;
  readonly completions: CompletionWaiter;
  readonly states: LocalStates;
  readonly jobs: LocalJobs;
  /** Submits a job inside the middleware of the server's client. Resolves with whether it created the run. */
  readonly createJob: (request: JobRequest) => Promise<boolean>;
  readonly updates: LocalUpdates;
  readonly bulk: LocalBulk;
  readonly owners: SessionOwners;
  readonly bindings: JobBindings;
  /** Returns the definition name of each instance, or `undefined` for an unknown id. */
  readonly namesOf: (ids: readonly string[]) => Promise<readonly (string | undefined)[]>;
  /** Returns the names of all definitions that have instances. */
  readonly definitionNames: () => Promise<ReadonlySet<string>>;
  /** Explains an instance to a caller. Names and states of children that the caller must not see are left out. */
  readonly explain: (id: string, caller: Caller) => Promise<Why>;
  /** Explains the rows of lists. Callers with the same rights share a result for 500 ms. */
  readonly explainMany: (
    ids: readonly string[],
    caller: Caller,
  ) => Promise<readonly ExplainedInstance[]>;
  /** Returns the names of instances in messages of the feed. Callers share a result for one second. */
  readonly namesOfChanged: (ids: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  /** Lists the queues of definitions. Callers share a result for one second. */
  readonly queues: () => Promise<readonly DefinitionQueueInfo[]>;
  /** Reads what may need attention. Callers share the reads for one second; each gets the findings that it may see. */
  readonly attention: () => Promise<AttentionReads>;
  readonly payloadLimitBytes: number;
  /** Opens the history of an execution, to be read page by page. */
  readonly openExport: (id: string, executionId: number | undefined) => Promise<HistoryExport>;
  /** Flows that callers can start, by name. */
  readonly flows: ReadonlyMap<string, FlowDefinition>;
  readonly changes: ChangeFeed;
  readonly metrics: ServerMetrics;
  /** Returns the OpenAPI document of the server. */
  readonly openApi: () => Record<string, unknown>;
  readonly showStacks: boolean;
  /** `sqlite`, `postgres`, or the first word of another store's name. */
  readonly storeKind: string;
  /** Time limit for a bulk operation within one request, in milliseconds. */
  readonly bulkMs: number;
}

/** A validated request with its caller. */
type Call<Shape extends RouteShape> = RequestOf<Shape> & {
  readonly caller: Caller;
  /** Aborts when the response is no longer needed. */
  readonly signal: AbortSignal;
  /** The id of the last message that a reconnecting reader of a stream received. */
  readonly lastEventId: string | undefined;
};

/**
 * Implements a route: returns its JSON value or text, the chunks of its JSON, or its messages. The handler of a stream
 * may return a promise; if it rejects, the response has the status of the error.
 */
type Handler<Shape extends RouteShape> = (
  call: Call<Shape>,
  context: ServerContext,
) => Shape extends { readonly as: 'events' }
  ? AsyncIterable<ResponseOf<Shape>> | Promise<AsyncIterable<ResponseOf<Shape>>>
  : Shape extends { readonly exports: true }
    ? Promise<AsyncIterable<string>>
    : Promise<ResponseOf<Shape>>;

/** A handler for each route of a table. */
export type Handlers<Routes extends Readonly<Record<string, RouteShape>>> = {
  readonly [Name in keyof Routes]: Handler<Routes[Name]>;
};

// Read to check the store. The instance does not have to exist.
const probeId = 'perdure-health';
// The health route needs no token, so its query is cached.
const healthMs = 1_000;
// Open dashboards read these again and again.
const sharedMs = 1_000;
const explainedMs = 500;
const maxShared = 10_000;

/** Creates the services behind the routes. */
export function createServerContext(
  client: LocalClient,
  options: CheckedOptions,
  metrics: ServerMetrics,
): ServerContext {
  const { backend, payloadLimitBytes, middleware } = LocalClient.internals(client);
  const { provider, clock, completions, states, jobs, bulk, updates } = backend;
  const explanations = new SharedReads<ExplainedInstance>({
    maxAgeMs: explainedMs,
    maxEntries: maxShared,
    changedAt: (id) => backend.views.changedAt(id),
  });
  const names = new SharedReads<string>({ maxAgeMs: sharedMs, maxEntries: maxShared });
  const queues = cachedFor(sharedMs, () => client.queues());
  let openApi: Record<string, unknown> | undefined;
  return {
    client,
    clock,
    checkHealth: cachedFor(healthMs, async () => void (await client.get(probeId))),
    completions,
    states,
    jobs,
    createJob: (request) => {
      const { name, key } = request;
      const call = { kind: 'start', name, instanceId: key.instanceId } as const;
      return sendJob(middleware, call, () => jobs.create(request));
    },
    bulk,
    updates,
    owners: new SessionOwners(jobs),
    bindings: new JobBindings(provider),
    namesOf: async (ids) => (await provider.getInstances(ids)).map((record) => record?.name),
    definitionNames: () => listDefinitionNames(provider),
    explain: (id, caller) =>
      explainInstance({ provider, maySee: (name) => allows(caller, name) }, checkInstanceId(id)),
    explainMany: async (ids, caller) => {
      const scope = JSON.stringify(caller.definitions?.patterns.toSorted() ?? null);
      const found = await explanations.get(scope, ids, async (missing) => {
        const maySee = (name: string): boolean => allows(caller, name);
        const explained = await explainInstances({ provider, maySee }, missing);
        return new Map(explained.map((one) => [one.id, one]));
      });
      return [...found.values()];
    },
    namesOfChanged: (ids) =>
      names.get('', ids, async (missing) => {
        const records = await provider.readVersions(missing);
        return new Map(records.flatMap((one) => (one ? [[one.instanceId, one.name]] : [])));
      }),
    queues,
    attention: cachedFor(sharedMs, () => readAttention(provider, queues)),
    payloadLimitBytes,
    openExport: (id, executionId) => openHistoryExport(provider, checkInstanceId(id), executionId),
    flows: options.flows,
    changes: new ChangeFeed(provider, queues),
    metrics,
    openApi: () => (openApi ??= makeOpenApi()),
    showStacks: options.showStacks,
    storeKind: provider.name.split(' ')[0] ?? '',
    // Leaves time to return the progress.
    bulkMs: options.limits.requestMs / 2,
  };
}

/** Runs `work` at most once per `ms`; callers within that time share its result. */
function cachedFor<Value>(ms: number, work: () => Promise<Value>): () => Promise<Value> {
  let last: { readonly at: number; readonly outcome: Promise<Value> } | undefined;
  return () => {
    const at = performance.now();
    if (last === undefined || at - last.at >= ms) last = { at, outcome: work() };
    return last.outcome;
  };
}
