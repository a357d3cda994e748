import { assertMeant } from '../../management/instance-filter.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { notFound } from '../../model/failures/not-found.ts';
import { allows, forbiddenDefinition, hideDefinitionName } from './allowed-definitions.ts';
import type { ServerContext, Handlers } from '../server-context.ts';
import { handlers } from '../handlers/table.ts';
import { HttpError, toWireError } from '../http/errors.ts';
import type { ResponseOf, RequestOf } from '../routes/route.ts';
import type { RouteName, Routes } from '../routes/table.ts';
import type { Caller } from './tokens.ts';

type CallOf<Name extends RouteName> = RequestOf<Routes[Name]> & {
  readonly caller: Caller;
  readonly signal: AbortSignal;
};

/** The routes whose path names an instance. */
type InstanceRoute = {
  [Name in RouteName]: Routes[Name] extends { readonly path: `/v1/instances/{id}${string}` }
    ? Name
    : Routes[Name] extends { readonly path: `/v1/flow-runs/{id}${string}` }
      ? Name
      : never;
}[RouteName];

/** The routes whose path names a schedule. */
type ScheduleRoute = {
  [Name in RouteName]: Routes[Name] extends { readonly path: `/v1/schedules/{name}${string}` }
    ? Name
    : never;
}[RouteName];

type Named = { readonly params: { readonly id: string }; readonly caller: Caller };
type AnyHandler = (call: object, context: ServerContext) => Promise<unknown>;

// A page is filled from as many pages of the store at most; a shorter one has a cursor.
const maxPagesRead = 10;

/**
 * The routes as a caller sees them who is restricted to some definitions. What a route would show or do beyond those is
 * left out, not found or refused; a route that cannot be restricted is refused. There is an entry for every route, so a
 * new one does not compile until its restriction was decided.
 */
export const restrictedHandlers: Handlers<Routes> = {
  async startInstance(call, context) {
    assertAllowed(call.caller, call.body.name);
    return hideDefinitionName(call.caller, call.body.id, handlers.startInstance(call, context));
  },
  async listInstances(call, context) {
    const { query, caller } = call;
    if (query.name !== undefined && !allows(caller, query.name)) return { items: [] };
    const wanted = query.limit ?? 100;
    const items: ResponseOf<Routes['listInstances']>['items'][number][] = [];
    let { cursor } = query;
    // A page with payloads has up to 8 MiB already.
    const maxPages = query.payloads === true ? 1 : maxPagesRead;
    for (let page = 0; page < maxPages && items.length < wanted; page += 1) {
      const part = { ...query, limit: wanted - items.length, cursor };
      const answer = await handlers.listInstances({ ...call, query: part }, context);
      items.push(...answer.items.filter(({ name }) => allows(caller, name)));
      cursor = answer.nextCursor;
      if (cursor === undefined) return { items };
    }
    return { items, ...(cursor !== undefined && { nextCursor: cursor }) };
  },
  getInstance: forInstance('getInstance'),
  measureInstance: forInstance('measureInstance'),
  waitForInstance: forInstance('waitForInstance'),
  async waitForInstances(call, context) {
    const { body, caller } = call;
    const hidden = await hiddenIds(body.ids, caller, context);
    if (hidden.length > 0) return { results: hidden.map(toMissing) };
    const { results } = await handlers.waitForInstances(call, context);
    return {
      results: results.map((one) =>
        'instance' in one && !allows(caller, one.instance.name) ? toMissing(one.id) : one,
      ),
    };
  },
  raiseEvent: forInstance('raiseEvent'),
  getInstanceTree: forInstance('getInstanceTree'),
  getHistory: forInstance('getHistory'),
  exportHistory: forInstance('exportHistory'),
  listExecutions: forInstance('listExecutions'),
  listRunning: forInstance('listRunning'),
  async watchInstance(call, context) {
    await assertVisible(call, context);
    return watchAllowed(call, await handlers.watchInstance(call, context));
  },

  cancelInstance: forStop('cancelInstance'),
  terminateInstance: forStop('terminateInstance'),

  deleteInstance: forInstance('deleteInstance'),
  pruneExecutions: forInstance('pruneExecutions'),
  async deleteInstances(call, context) {
    const { filter, all } = call.body;
    assertMeant(filter, all);
    const body = { ...call.body, filter: withNames(filter, call.caller) };
    return handlers.deleteInstances({ ...call, body }, context);
  },
  async pruneExecutionsBulk(call, context) {
    const { filter, all, keepLast, completedBefore } = call.body;
    assertMeant(filter, all, { keepLast, completedBefore });
    const body = { ...call.body, filter: withNames(filter, call.caller) };
    return handlers.pruneExecutionsBulk({ ...call, body }, context);
  },
  listAudit: rejectRestricted,

  getRetention: rejectRestricted,
  pauseRetention: rejectRestricted,
  resumeRetention: rejectRestricted,
  runRetention: rejectRestricted,

  async runTask(call, context) {
    assertAllowed(call.caller, call.body.task);
    return hideDefinitionName(call.caller, call.body.id, handlers.runTask(call, context));
  },
  async runTasks(call, context) {
    for (const { task } of call.body.requests) assertAllowed(call.caller, task);
    return hideDefinitionName(call.caller, undefined, handlers.runTasks(call, context));
  },

  async listFlows(call, context) {
    const { items } = await handlers.listFlows(call, context);
    return { items: items.filter(({ name }) => allows(call.caller, name)) };
  },
  async startFlow(call, context) {
    assertAllowed(call.caller, call.params.name);
    return hideDefinitionName(call.caller, call.body.id, handlers.startFlow(call, context));
  },
  getFlowRun: forInstance('getFlowRun'),
  listFlowItems: forInstance('listFlowItems'),
  signalFlow: forInstance('signalFlow'),

  async listSchedules(call, context) {
    const page = await handlers.listSchedules(call, context);
    return {
      ...page,
      items: page.items.filter(({ definition }) => mayStart(call.caller, definition)),
    };
  },
  getSchedule: forSchedule('getSchedule'),
  async putSchedule(call, context) {
    const { params, body, caller } = call;
    assertAllowed(caller, 'task' in body ? body.task : body.orchestration);
    const before = await context.client.schedules.get(params.name);
    if (before !== undefined && !mayStart(caller, before.definition)) {
      throw new HttpError(
        'FORBIDDEN',
        `Schedule ${JSON.stringify(params.name)} starts a definition that the token does not allow. Choose another name.`,
        { status: 403, reason: 'definition' },
      );
    }
    return handlers.putSchedule(call, context);
  },
  pauseSchedule: forSchedule('pauseSchedule'),
  resumeSchedule: forSchedule('resumeSchedule'),
  deleteSchedule: forSchedule('deleteSchedule'),
  nextRuns: forSchedule('nextRuns'),

  // These check by themselves whose session it is, and what a job runs.
  openSession: handlers.openSession,
  listSessions: handlers.listSessions,
  getSession: handlers.getSession,
  keepAlive: handlers.keepAlive,
  shutdownSession: handlers.shutdownSession,
  waitForSession: handlers.waitForSession,
  setSessionVariables: handlers.setSessionVariables,
  listJobs: handlers.listJobs,
  submitJobs: handlers.submitJobs,
  waitForJobs: handlers.waitForJobs,
  takeJobs: handlers.takeJobs,
  abandonJobs: handlers.abandonJobs,
  cancelJobs: handlers.cancelJobs,
  getJob: handlers.getJob,
  readChunks: handlers.readChunks,
  streamJob: handlers.streamJob,

  // These tell nothing of any definition.
  health: handlers.health,
  openApi: handlers.openApi,
  queueDepths: rejectRestricted,
  systemMetrics: rejectRestricted,
  prometheus: rejectRestricted,
  async watchChanges(call, context) {
    return changesOfAllowed(call, await handlers.watchChanges(call, context), context);
  },
};

/** A route that concerns the whole store: there is no part of it to show. */
async function rejectRestricted(): Promise<never> {
  throw new HttpError(
    'FORBIDDEN',
    'This concerns all definitions, and the token is restricted to some. Use a token without `definitions`.',
    { status: 403, reason: 'definition' },
  );
}

function assertAllowed(caller: Caller, name: string): void {
  if (!allows(caller, name)) throw forbiddenDefinition(name);
}

/** Lets a route do what it does where the instance is one that the caller may see. */
function forInstance<Name extends InstanceRoute>(name: Name): Handlers<Routes>[Name] {
  const guarded = async (call: CallOf<Name>, context: ServerContext): Promise<unknown> => {
    await assertVisible(call, context);
    return (handlers[name] as unknown as AnyHandler)(call, context);
  };
  return guarded as unknown as Handlers<Routes>[Name];
}

/** As for an unknown instance: a request to stop is never an error. */
function forStop<Name extends 'cancelInstance' | 'terminateInstance'>(
  name: Name,
): Handlers<Routes>[Name] {
  const guarded = async (call: CallOf<Name>, context: ServerContext): Promise<unknown> => {
    const { params, caller } = call as unknown as Named;
    const hidden = await hiddenIds([params.id], caller, context);
    if (hidden.length > 0) return { found: false, changed: false, status: null };
    return (handlers[name] as unknown as AnyHandler)(call, context);
  };
  return guarded as unknown as Handlers<Routes>[Name];
}

/** Lets a route do what it does where the schedule starts a definition that the caller may use. */
function forSchedule<Name extends ScheduleRoute>(name: Name): Handlers<Routes>[Name] {
  const guarded = async (call: CallOf<Name>, context: ServerContext): Promise<unknown> => {
    const { params, caller } = call as unknown as CallOf<'getSchedule'>;
    const schedule = await context.client.schedules.get(params.name);
    if (schedule === undefined || !mayStart(caller, schedule.definition)) {
      throw new PerdureError(
        'SCHEDULE_NOT_FOUND',
        `There is no schedule ${JSON.stringify(params.name)}.`,
      );
    }
    return (handlers[name] as unknown as AnyHandler)(call, context);
  };
  return guarded as unknown as Handlers<Routes>[Name];
}

function mayStart(
  caller: Caller,
  definition: { readonly starts: { readonly name: string } } | undefined,
): boolean {
  return definition !== undefined && allows(caller, definition.starts.name);
}

async function assertVisible({ params, caller }: Named, context: ServerContext): Promise<void> {
  const hidden = await hiddenIds([params.id], caller, context);
  if (hidden.length > 0) throw notFound(params.id);
}

/** Those of some instances that are unknown, or of a definition that the caller may not use: both look the same. */
async function hiddenIds(
  ids: readonly string[],
  caller: Caller,
  { namesOf }: ServerContext,
): Promise<readonly string[]> {
  const names = await namesOf(ids);
  return ids.filter((_, index) => {
    const name = names[index];
    return name === undefined || !allows(caller, name);
  });
}

function toMissing(id: string) {
  return { id, error: toWireError(notFound(id), false) };
}

/** The id may be given to another definition while it is watched. */
async function* watchAllowed(
  { params, caller }: CallOf<'watchInstance'>,
  messages: AsyncIterable<ResponseOf<Routes['watchInstance']>>,
): AsyncGenerator<ResponseOf<Routes['watchInstance']>, void, undefined> {
  for await (const message of messages) {
    if (!allows(caller, message.name)) throw notFound(params.id);
    yield message;
  }
}

/** The ends and changes of instances that the caller may see; figures concern the whole store. */
async function* changesOfAllowed(
  { caller }: CallOf<'watchChanges'>,
  messages: AsyncIterable<ResponseOf<Routes['watchChanges']>>,
  context: ServerContext,
): AsyncGenerator<ResponseOf<Routes['watchChanges']>, void, undefined> {
  for await (const message of messages) {
    if (message.kind === 'figures') continue;
    const hidden = new Set(await hiddenIds(message.ids, caller, context));
    const ids = message.ids.filter((id) => !hidden.has(id));
    if (ids.length > 0 || ('missed' in message && message.missed)) yield { ...message, ids };
  }
}

/** A filter that selects nothing but what the caller may use. */
function withNames<Filter extends { readonly name?: string | readonly string[] | undefined }>(
  filter: Filter | undefined,
  { definitions }: Caller,
): Filter & { name: string[] } {
  const allowed = definitions?.patterns ?? [];
  const given = filter?.name === undefined ? allowed : [filter.name].flat();
  for (const name of given) if (definitions?.has(name) !== true) throw forbiddenDefinition(name);
  return { ...(filter as Filter), name: [...given] };
}
