import { Client } from '../client/client.ts';
import { LocalJobs } from '../client/jobs/local-jobs.ts';
import { openHistoryExport, type HistoryExport } from '../client/reading/history.ts';
import type { CompletionWaiter } from '../client/waiting/completion-waiter.ts';
import type { FlowDefinition } from '../flows/definition/flow-definition.ts';
import type { Clock } from '../model/clock.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { JobBindings, SessionOwners } from './access/session-access.ts';
import type { Caller } from './access/tokens.ts';
import type { CheckedOptions } from './handler.ts';
import { makeOpenApi } from './open-api.ts';
import { ChangeFeed } from './monitoring/change-feed.ts';
import type { ServerMetrics } from './monitoring/server-metrics.ts';
import type { ResponseOf, RequestOf, RouteShape } from './routes/route.ts';

/** What stands behind the routes. */
export interface ServerContext {
  readonly client: Client;
  readonly clock: Clock;
  /** Asks the store whether it answers, not more often than is sensible; rejects when it does not. */
  readonly checkHealth: () => Promise<void>;
  readonly completions: CompletionWaiter;
  readonly jobs: LocalJobs;
  readonly owners: SessionOwners;
  readonly bindings: JobBindings;
  /** The names of the definitions of instances, in order; `undefined` for an unknown one. */
  readonly namesOf: (ids: readonly string[]) => Promise<readonly (string | undefined)[]>;
  readonly payloadLimitBytes: number;
  /** Begins to read a whole history, one page after the other. */
  readonly openExport: (id: string, executionId: number | undefined) => Promise<HistoryExport>;
  /** Flows that can be started by name. */
  readonly flows: ReadonlyMap<string, FlowDefinition>;
  readonly changes: ChangeFeed;
  readonly metrics: ServerMetrics;
  /** The interface as an OpenAPI document. */
  readonly openApi: () => Record<string, unknown>;
  readonly showStacks: boolean;
  /** How long an operation on many things may go on within one request. */
  readonly bulkMs: number;
}

/** A request that was checked: who asks for what. */
type Call<Shape extends RouteShape> = RequestOf<Shape> & {
  readonly caller: Caller;
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
};

/**
 * Does what a route says: returns its JSON value, its text, the parts of its JSON text, or its messages in order. A stream
 * whose handler returns a promise is checked before its answer begins: a rejection has its own status.
 */
type Handler<Shape extends RouteShape> = (
  call: Call<Shape>,
  context: ServerContext,
) => Shape extends { readonly as: 'events' }
  ? AsyncIterable<ResponseOf<Shape>> | Promise<AsyncIterable<ResponseOf<Shape>>>
  : Shape extends { readonly exports: true }
    ? Promise<AsyncIterable<string>>
    : Promise<ResponseOf<Shape>>;

/** A handler for each of some routes. */
export type Handlers<Routes extends Readonly<Record<string, RouteShape>>> = {
  readonly [Name in keyof Routes]: Handler<Routes[Name]>;
};

/** Who did it, as it is recorded: nobody can pose as the bearer of another token. */
export function actorOf({ name }: Caller, given: string | undefined): string | undefined {
  if (name === null) return given;
  return given === undefined ? name : `${name}: ${given}`;
}

// An id that a store is asked for to see whether it answers; nobody need have it.
const probeId = 'perdure-health';
// The question needs no token, so it must not cost much to ask it often.
const healthMs = 1_000;

/** Puts together what stands behind the routes. */
export function createServerContext(
  client: Client,
  options: CheckedOptions,
  figures: ServerMetrics,
): ServerContext {
  const { provider, clock, completions, payloadLimitBytes } = Client.internals(client);
  const jobs = new LocalJobs({ provider, clock, completions });
  let openApi: Record<string, unknown> | undefined;
  return {
    client,
    clock,
    checkHealth: cachedFor(healthMs, async () => void (await client.get(probeId))),
    completions,
    jobs,
    owners: new SessionOwners(jobs),
    bindings: new JobBindings(provider),
    namesOf: async (ids) => (await provider.getInstances(ids)).map((record) => record?.name),
    payloadLimitBytes,
    openExport: (id, executionId) => openHistoryExport(provider, checkInstanceId(id), executionId),
    flows: options.flows,
    changes: new ChangeFeed(provider),
    metrics: figures,
    openApi: () => (openApi ??= makeOpenApi()),
    showStacks: options.showStacks,
    // Leaves time to say how far it came.
    bulkMs: options.limits.requestMs / 2,
  };
}

/** Does something at most once in a time; whoever asks meanwhile shares the outcome. */
function cachedFor(ms: number, work: () => Promise<void>): () => Promise<void> {
  let last: { readonly at: number; readonly outcome: Promise<void> } | undefined;
  return () => {
    const at = performance.now();
    if (last === undefined || at - last.at >= ms) last = { at, outcome: work() };
    return last.outcome;
  };
}
