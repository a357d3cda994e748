import { assertHasCondition } from '../../management/instance-filter.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { notFound } from '../../model/failures/not-found.ts';
import { allows, forbiddenDefinition, withoutNames } from './allowed-definitions.ts';
import type { Backstage, Handlers } from '../call.ts';
import { handlers } from '../handlers/table.ts';
import { Refusal } from '../http/refusal.ts';
import type { AnswerOf, RequestOf } from '../routes/route.ts';
import type { RouteName, Routes } from '../routes/table.ts';
import type { Caller } from './tokens.ts';
import { toWireError } from '../http/wire-error.ts';

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
type AnyHandler = (call: object, backstage: Backstage) => Promise<unknown>;

// A page is filled from as many pages of the store at most; a shorter one has a cursor.
const maxPagesRead = 10;

/**
 * The routes as a caller sees them who is restricted to some definitions. What a route would show or do beyond those is
 * left out, not found or refused; a route that cannot be restricted is refused. There is an entry for every route, so a
 * new one does not compile until its restriction was decided.
 */
export const restrictedHandlers: Handlers<Routes> = {
  async startInstance(call, backstage) {
    assertAllowed(call.caller, call.body.name);
    return withoutNames(call.caller, call.body.id, handlers.startInstance(call, backstage));
  },
  async listInstances(call, backstage) {
    const { query, caller } = call;
    if (query.name !== undefined && !allows(caller, query.name)) return { items: [] };
    const wanted = query.limit ?? 100;
    const items: AnswerOf<Routes['listInstances']>['items'][number][] = [];
    let { cursor } = query;
    // A page with payloads has up to 8 MiB already.
    const maxPages = query.payloads === true ? 1 : maxPagesRead;
    for (let page = 0; page < maxPages && items.length < wanted; page += 1) {
      const part = { ...query, limit: wanted - items.length, cursor };
      const answer = await handlers.listInstances({ ...call, query: part }, backstage);
      items.push(...answer.items.filter(({ name }) => allows(caller, name)));
      cursor = answer.nextCursor;
      if (cursor === undefined) return { items };
    }
    return { items, ...(cursor !== undefined && { nextCursor: cursor }) };
  },
  getInstance: ofInstance('getInstance'),
  measureInstance: ofInstance('measureInstance'),
  waitForInstance: ofInstance('waitForInstance'),
  async waitForInstances(call, backstage) {
    const { body, caller } = call;
    const hidden = await hiddenAmong(body.ids, caller, backstage);
    if (hidden.length > 0) return { results: hidden.map(toMissing) };
    const { results } = await handlers.waitForInstances(call, backstage);
    return {
      results: results.map((one) =>
        'instance' in one && !allows(caller, one.instance.name) ? toMissing(one.id) : one,
      ),
    };
  },
  raiseEvent: ofInstance('raiseEvent'),
  getInstanceTree: ofInstance('getInstanceTree'),
  getHistory: ofInstance('getHistory'),
  exportHistory: ofInstance('exportHistory'),
  listExecutions: ofInstance('listExecutions'),
  listRunning: ofInstance('listRunning'),
  async watchInstance(call, backstage) {
    await assertVisible(call, backstage);
    return watchAllowed(call, await handlers.watchInstance(call, backstage));
  },

  cancelInstance: stopping('cancelInstance'),
  terminateInstance: stopping('terminateInstance'),

  deleteInstance: ofInstance('deleteInstance'),
  pruneExecutions: ofInstance('pruneExecutions'),
  async deleteInstances(call, backstage) {
    const { filter, all } = call.body;
    assertHasCondition(filter, all);
    const body = { ...call.body, filter: withNames(filter, call.caller) };
    return handlers.deleteInstances({ ...call, body }, backstage);
  },
  async pruneExecutionsBulk(call, backstage) {
    const { filter, all, keepLast, completedBefore } = call.body;
    assertHasCondition(filter, all, { keepLast, completedBefore });
    const body = { ...call.body, filter: withNames(filter, call.caller) };
    return handlers.pruneExecutionsBulk({ ...call, body }, backstage);
  },
  listAudit: denied,

  getRetention: denied,
  pauseRetention: denied,
  resumeRetention: denied,
  runRetention: denied,

  async runTask(call, backstage) {
    assertAllowed(call.caller, call.body.task);
    return withoutNames(call.caller, call.body.id, handlers.runTask(call, backstage));
  },
  async runTasks(call, backstage) {
    for (const { task } of call.body.requests) assertAllowed(call.caller, task);
    return withoutNames(call.caller, undefined, handlers.runTasks(call, backstage));
  },

  async listFlows(call, backstage) {
    const { items } = await handlers.listFlows(call, backstage);
    return { items: items.filter(({ name }) => allows(call.caller, name)) };
  },
  async startFlow(call, backstage) {
    assertAllowed(call.caller, call.params.name);
    return withoutNames(call.caller, call.body.id, handlers.startFlow(call, backstage));
  },
  getFlowRun: ofInstance('getFlowRun'),
  listFlowItems: ofInstance('listFlowItems'),
  signalFlow: ofInstance('signalFlow'),

  async listSchedules(call, backstage) {
    const page = await handlers.listSchedules(call, backstage);
    return {
      ...page,
      items: page.items.filter(({ definition }) => mayStart(call.caller, definition)),
    };
  },
  getSchedule: ofSchedule('getSchedule'),
  async putSchedule(call, backstage) {
    const { params, body, caller } = call;
    assertAllowed(caller, 'task' in body ? body.task : body.orchestration);
    const before = await backstage.client.schedules.get(params.name);
    if (before !== undefined && !mayStart(caller, before.definition)) {
      throw new Refusal(
        'FORBIDDEN',
        `Schedule ${JSON.stringify(params.name)} starts a definition that the token does not allow. Choose another name.`,
        { status: 403, reason: 'definition' },
      );
    }
    return handlers.putSchedule(call, backstage);
  },
  pauseSchedule: ofSchedule('pauseSchedule'),
  resumeSchedule: ofSchedule('resumeSchedule'),
  deleteSchedule: ofSchedule('deleteSchedule'),
  nextRuns: ofSchedule('nextRuns'),

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
  queueDepths: denied,
  systemMetrics: denied,
  prometheus: denied,
  async watchChanges(call, backstage) {
    return changesOfAllowed(call, await handlers.watchChanges(call, backstage), backstage);
  },
};

/** A route that concerns the whole store: there is no part of it to show. */
async function denied(): Promise<never> {
  throw new Refusal(
    'FORBIDDEN',
    'This concerns all definitions, and the token is restricted to some. Use a token without `definitions`.',
    { status: 403, reason: 'definition' },
  );
}

function assertAllowed(caller: Caller, name: string): void {
  if (!allows(caller, name)) throw forbiddenDefinition(name);
}

/** Lets a route do what it does where the instance is one that the caller may see. */
function ofInstance<Name extends InstanceRoute>(name: Name): Handlers<Routes>[Name] {
  const guarded = async (call: CallOf<Name>, backstage: Backstage): Promise<unknown> => {
    await assertVisible(call, backstage);
    return (handlers[name] as unknown as AnyHandler)(call, backstage);
  };
  return guarded as unknown as Handlers<Routes>[Name];
}

/** As for an unknown instance: a request to stop is never an error. */
function stopping<Name extends 'cancelInstance' | 'terminateInstance'>(
  name: Name,
): Handlers<Routes>[Name] {
  const guarded = async (call: CallOf<Name>, backstage: Backstage): Promise<unknown> => {
    const { params, caller } = call as unknown as Named;
    const hidden = await hiddenAmong([params.id], caller, backstage);
    if (hidden.length > 0) return { found: false, changed: false, status: null };
    return (handlers[name] as unknown as AnyHandler)(call, backstage);
  };
  return guarded as unknown as Handlers<Routes>[Name];
}

/** Lets a route do what it does where the schedule starts a definition that the caller may use. */
function ofSchedule<Name extends ScheduleRoute>(name: Name): Handlers<Routes>[Name] {
  const guarded = async (call: CallOf<Name>, backstage: Backstage): Promise<unknown> => {
    const { params, caller } = call as unknown as CallOf<'getSchedule'>;
    const schedule = await backstage.client.schedules.get(params.name);
    if (schedule === undefined || !mayStart(caller, schedule.definition)) {
      throw new PerdureError(
        'SCHEDULE_NOT_FOUND',
        `There is no schedule ${JSON.stringify(params.name)}.`,
      );
    }
    return (handlers[name] as unknown as AnyHandler)(call, backstage);
  };
  return guarded as unknown as Handlers<Routes>[Name];
}

function mayStart(
  caller: Caller,
  definition: { readonly starts: { readonly name: string } } | undefined,
): boolean {
  return definition !== undefined && allows(caller, definition.starts.name);
}

async function assertVisible({ params, caller }: Named, backstage: Backstage): Promise<void> {
  const hidden = await hiddenAmong([params.id], caller, backstage);
  if (hidden.length > 0) throw notFound(params.id);
}

/** Those of some instances that are unknown, or of a definition that the caller may not use: both look the same. */
async function hiddenAmong(
  ids: readonly string[],
  caller: Caller,
  { namesOf }: Backstage,
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
  messages: AsyncIterable<AnswerOf<Routes['watchInstance']>>,
): AsyncGenerator<AnswerOf<Routes['watchInstance']>, void, undefined> {
  for await (const message of messages) {
    if (!allows(caller, message.name)) throw notFound(params.id);
    yield message;
  }
}

/** The ends and changes of instances that the caller may see; figures concern the whole store. */
async function* changesOfAllowed(
  { caller }: CallOf<'watchChanges'>,
  messages: AsyncIterable<AnswerOf<Routes['watchChanges']>>,
  backstage: Backstage,
): AsyncGenerator<AnswerOf<Routes['watchChanges']>, void, undefined> {
  for await (const message of messages) {
    if (message.kind === 'figures') continue;
    const hidden = new Set(await hiddenAmong(message.ids, caller, backstage));
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
