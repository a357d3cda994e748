import type { LocalClient } from '../client/local-client.ts';
import type { CompletionWaiter } from '../client/waiting/completion-waiter.ts';
import type { HistoryExport } from '../client/reading/history.ts';
import type { LocalJobs } from '../client/local-jobs.ts';
import type { FlowDefinition } from '../flows/definition/flow-definition.ts';
import type { Clock } from '../model/clock.ts';
import type { ChangeFeed } from './reading/change-feed.ts';
import type { JobBindings } from './access/job-bindings.ts';
import type { ServerFigures } from './reading/server-metrics.ts';
import type { AnswerOf, RequestOf, RouteShape } from './routes/route.ts';
import type { SessionOwners } from './access/session-owners.ts';
import type { Caller } from './access/tokens.ts';

/** What stands behind the routes. */
export interface Backstage {
  readonly client: LocalClient;
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
  readonly figures: ServerFigures;
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
  backstage: Backstage,
) => Shape extends { readonly as: 'events' }
  ? AsyncIterable<AnswerOf<Shape>> | Promise<AsyncIterable<AnswerOf<Shape>>>
  : Shape extends { readonly exports: true }
    ? Promise<AsyncIterable<string>>
    : Promise<AnswerOf<Shape>>;

/** A handler for each of some routes. */
export type Handlers<Routes extends Readonly<Record<string, RouteShape>>> = {
  readonly [Name in keyof Routes]: Handler<Routes[Name]>;
};

/** Who did it, as it is recorded: nobody can pose as the bearer of another token. */
export function actorOf({ name }: Caller, given: string | undefined): string | undefined {
  if (name === null) return given;
  return given === undefined ? name : `${name}: ${given}`;
}
