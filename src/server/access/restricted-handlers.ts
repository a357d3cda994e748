import { assertHasCondition } from '../../management/instance-filter.ts';
import { allows, forbiddenDefinition, hideDefinitionName } from './allowed-definitions.ts';
import type { Handlers, ServerContext } from '../server-context.ts';
import { scheduleNotFound } from '../handlers/schedules.ts';
import { handlers } from '../handlers/table.ts';
import { HttpError } from '../http/errors.ts';
import type { ResponseOf, RequestOf } from '../routes/route.ts';
import type { RouteName, Routes } from '../routes/table.ts';
import { countAllowed } from './restricted-counts.ts';
import {
  changesOfAllowed,
  eventsOfAllowed,
  instancesOfAllowed,
  streamOfAllowed,
  watchAllowed,
} from './restricted-streams.ts';
import type { Caller } from './tokens.ts';
import { assertVisible, hiddenIds, missingPlaces, toMissing } from './visible-instances.ts';

type CallOf<Name extends RouteName> = RequestOf<Routes[Name]> & {
  readonly caller: Caller;
  readonly signal: AbortSignal;
  readonly lastEventId: string | undefined;
};

/** Routes with an instance id in their path. */
type InstanceRoute = {
  [Name in RouteName]: Routes[Name] extends { readonly path: `/v1/instances/{id}${string}` }
    ? Name
    : Routes[Name] extends { readonly path: `/v1/flow-runs/{id}${string}` }
      ? Name
      : never;
}[RouteName];

/** Routes with a schedule name in their path. */
type ScheduleRoute = {
  [Name in RouteName]: Routes[Name] extends { readonly path: `/v1/schedules/{name}${string}` }
    ? Name
    : never;
}[RouteName];

/** Routes with the name of a definition in their path. */
type LimitRoute = 'getLimits' | 'setLimits' | 'resetLimits' | 'listLimitKeys';

type BulkRoute =
  | 'bulkCancel'
  | 'bulkTerminate'
  | 'bulkRetry'
  | 'bulkPause'
  | 'bulkResume'
  | 'bulkRaiseEvent'
  | 'bulkDelete'
  | 'bulkPrune';
type StopRoute = 'cancelInstance' | 'terminateInstance';
type AnyHandler = (call: object, context: ServerContext) => Promise<unknown>;

// Maximum store pages read for one page of the response. A shorter page has a cursor.
const maxPagesRead = 10;

/**
 * The handlers for callers that are restricted to some definitions. Other definitions are omitted, not found or
 * forbidden. A route that cannot be restricted returns 403. Every route has an entry, so a new route does not compile
 * until its restriction is decided.
 */
export const restrictedHandlers: Handlers<Routes> = {
  async startInstance(call, context) {
    assertAllowed(call.caller, call.body.name);
    return hideDefinitionName(call.caller, call.body.id, handlers.startInstance(call, context));
  },
  async listInstances(call, context) {
    const { query, caller } = call;
    const { name: names } = query;
    if (names !== undefined && !names.some((name) => allows(caller, name))) return { items: [] };
    const wanted = query.limit ?? 100;
    const items: ResponseOf<Routes['listInstances']>['items'][number][] = [];
    let { cursor } = query;
    // A store page with payloads may already have 8 MiB.
    const maxPages = query.payloads === true ? 1 : maxPagesRead;
    for (let pages = 0; pages < maxPages && items.length < wanted; pages += 1) {
      const part = { ...query, limit: wanted - items.length, cursor };
      const page = await handlers.listInstances({ ...call, query: part }, context);
      items.push(...page.items.filter(({ name }) => allows(caller, name)));
      cursor = page.nextCursor;
      if (cursor === undefined) return { items };
    }
    return { items, ...(cursor !== undefined && { nextCursor: cursor }) };
  },
  countInstances: countAllowed,
  async listDefinitions(call, context) {
    const { items } = await handlers.listDefinitions(call, context);
    return { items: items.filter(({ name }) => allows(call.caller, name)) };
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
  explainInstance: forInstance('explainInstance'),
  async explainInstances(call, context) {
    const { items } = await handlers.explainInstances(call, context);
    return { items: items.filter(({ instance }) => allows(call.caller, instance.name)) };
  },
  async watchInstance(call, context) {
    await assertVisible(call, context);
    return watchAllowed(call, await handlers.watchInstance(call, context));
  },

  cancelInstance: forStop('cancelInstance'),
  terminateInstance: forStop('terminateInstance'),
  retryInstance: forInstance('retryInstance'),
  async forkInstance(call, context) {
    await assertVisible(call, context);
    return hideDefinitionName(call.caller, call.body.id, handlers.forkInstance(call, context));
  },

  updateInstance: forInstance('updateInstance'),
  async waitForUpdates(call, context) {
    const ids = [...new Set(call.body.updates.map(({ id }) => id))];
    const hidden = new Set(await hiddenIds(ids, call.caller, context));
    const missing = call.body.updates.filter(({ id }) => hidden.has(id));
    if (missing.length === 0) return handlers.waitForUpdates(call, context);
    return { results: missing.map(({ id, key }) => ({ ...toMissing(id), key })) };
  },
  // The token is the right.
  resolveAwakeable: handlers.resolveAwakeable,
  rejectAwakeable: handlers.rejectAwakeable,

  pauseInstance: forInstance('pauseInstance'),
  resumeInstance: forInstance('resumeInstance'),
  async listPausedDefinitions(call, context) {
    const { items } = await handlers.listPausedDefinitions(call, context);
    return { items: items.filter(({ name }) => allows(call.caller, name)) };
  },
  async pauseDefinition(call, context) {
    assertAllowed(call.caller, call.body.name);
    return handlers.pauseDefinition(call, context);
  },
  async resumeDefinition(call, context) {
    assertAllowed(call.caller, call.body.name);
    return handlers.resumeDefinition(call, context);
  },

  async listLimits(call, context) {
    const page = await handlers.listLimits(call, context);
    return { ...page, items: page.items.filter(({ name }) => allows(call.caller, name)) };
  },
  getLimits: forDefinition('getLimits'),
  setLimits: forDefinition('setLimits'),
  resetLimits: forDefinition('resetLimits'),
  listLimitKeys: forDefinition('listLimitKeys'),

  deleteInstance: forInstance('deleteInstance'),
  pruneExecutions: forInstance('pruneExecutions'),
  async deleteInstances(call, context) {
    const { filter, all } = call.body;
    assertHasCondition(filter, all);
    const body = { ...call.body, filter: withNames(filter, call.caller) };
    return handlers.deleteInstances({ ...call, body }, context);
  },
  async pruneExecutionsBulk(call, context) {
    const { filter, all, keepLast, completedBefore } = call.body;
    assertHasCondition(filter, all, { keepLast, completedBefore });
    const body = { ...call.body, filter: withNames(filter, call.caller) };
    return handlers.pruneExecutionsBulk({ ...call, body }, context);
  },
  bulkCancel: forNamedBulk('bulkCancel'),
  bulkTerminate: forNamedBulk('bulkTerminate'),
  bulkRetry: forNamedBulk('bulkRetry'),
  bulkPause: forNamedBulk('bulkPause'),
  bulkResume: forNamedBulk('bulkResume'),
  bulkRaiseEvent: forNamedBulk('bulkRaiseEvent'),
  bulkDelete: forNamedBulk('bulkDelete'),
  bulkPrune: forNamedBulk('bulkPrune'),
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
  getFlowGraph: forInstance('getFlowGraph'),
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
        `Schedule ${JSON.stringify(params.name)} exists and starts a definition that the token does not allow. Choose another name.`,
        { status: 403, reason: 'definition' },
      );
    }
    return handlers.putSchedule(call, context);
  },
  pauseSchedule: forSchedule('pauseSchedule'),
  resumeSchedule: forSchedule('resumeSchedule'),
  deleteSchedule: forSchedule('deleteSchedule'),
  nextRuns: forSchedule('nextRuns'),
  async listScheduleRuns(call, context) {
    const { items } = await forSchedule('listScheduleRuns')(call, context);
    // An earlier definition of the schedule may have started other runs.
    return { items: items.filter(({ name }) => allows(call.caller, name)) };
  },
  triggerSchedule: forSchedule('triggerSchedule'),
  backfillSchedule: forSchedule('backfillSchedule'),

  // These handlers check the owner of the session and the definition of a job themselves.
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

  // These return nothing about definitions.
  health: handlers.health,
  live: handlers.live,
  ready: handlers.ready,
  openApi: handlers.openApi,
  listWorkers: rejectRestricted,
  listUnclaimedWork: rejectRestricted,
  async getSeries(call, context) {
    const { name } = call.query;
    // The row `other` counts definitions that the token may not allow.
    if (name === undefined || name === 'other' || !allows(call.caller, name)) {
      throw new HttpError(
        'FORBIDDEN',
        'The token is restricted to some definitions. Pass one of their names as `name`, except `other`.',
        { status: 403, reason: 'definition' },
      );
    }
    return handlers.getSeries(call, context);
  },
  getAttention: handlers.getAttention,
  queueDepths: rejectRestricted,
  async listQueues(call, context) {
    const { items } = await handlers.listQueues(call, context);
    // Activities belong to no definition of a token.
    return {
      items: items.filter(({ kind, name }) => kind !== 'activity' && allows(call.caller, name)),
    };
  },
  systemMetrics: rejectRestricted,
  prometheus: rejectRestricted,
  async watchChanges(call, context) {
    return changesOfAllowed(call, await handlers.watchChanges(call, context), context);
  },
  me: handlers.me,
  async watchHistory(call, context) {
    await assertVisible(call, context);
    return eventsOfAllowed(call, await handlers.watchHistory(call, context), context);
  },
  async streamInstance(call, context) {
    await assertVisible(call, context);
    return streamOfAllowed(call, await handlers.streamInstance(call, context), context);
  },
  getTimeline: forInstance('getTimeline'),
  async readTree(call, context) {
    await assertVisible(call, context);
    const page = await handlers.readTree(call, context);
    return { ...page, items: page.items.filter(({ name }) => allows(call.caller, name)) };
  },
  readState: forInstance('readState'),
  async waitForStates(call, context) {
    const ids = call.body.waits.map(({ id }) => id);
    const missing = await missingPlaces(ids, call.caller, context);
    if (missing.length > 0) return { results: missing };
    const { results } = await handlers.waitForStates(call, context);
    // The id may have been reused by another definition since.
    const hidden = new Map(
      (await missingPlaces(ids, call.caller, context)).map((one) => [one.place, one]),
    );
    return { results: results.map((one) => hidden.get(one.place) ?? one) };
  },
  async watchInstances(call, context) {
    return instancesOfAllowed(call, await handlers.watchInstances(call, context));
  },
};

/** Rejects a route that concerns the whole store. */
async function rejectRestricted(): Promise<never> {
  throw new HttpError(
    'FORBIDDEN',
    'This route concerns all definitions. Use a token without `definitions`.',
    { status: 403, reason: 'definition' },
  );
}

function assertAllowed(caller: Caller, name: string): void {
  if (!allows(caller, name)) throw forbiddenDefinition(name);
}

/** Throws `INSTANCE_NOT_FOUND` unless the caller may use the instance. */
function forInstance<Name extends InstanceRoute>(name: Name): Handlers<Routes>[Name] {
  return guarded(name, assertVisible);
}

/** Returns `found: false` unless the caller may use the instance. */
function forStop<Name extends StopRoute>(name: Name): Handlers<Routes>[Name] {
  return guarded(name, async ({ params, caller }: CallOf<StopRoute>, context) => {
    const hidden = await hiddenIds([params.id], caller, context);
    return hidden.length > 0 ? { found: false, changed: false, status: null } : undefined;
  });
}

/** Throws 403 unless the filter names definitions, all of which the caller may use. */
function forNamedBulk<Name extends BulkRoute>(name: Name): Handlers<Routes>[Name] {
  return guarded(name, async ({ body, caller }: CallOf<BulkRoute>) => {
    const wanted = body.filter?.name;
    if (wanted !== undefined) {
      for (const one of [wanted].flat()) assertAllowed(caller, one);
      return undefined;
    }
    throw new HttpError(
      'FORBIDDEN',
      'The token allows some definitions only. Pass their names as `name` in the filter.',
      { status: 403, reason: 'definition' },
    );
  });
}

/** Throws unless the caller may see the definition with the name in the path. */
function forDefinition<Name extends LimitRoute>(name: Name): Handlers<Routes>[Name] {
  return guarded(name, async ({ params, caller }: CallOf<'getLimits'>) => {
    assertAllowed(caller, params.name);
  });
}

/** Throws `SCHEDULE_NOT_FOUND` unless the caller may start the definition of the schedule. */
function forSchedule<Name extends ScheduleRoute>(name: Name): Handlers<Routes>[Name] {
  return guarded(name, async ({ params, caller }: CallOf<'getSchedule'>, { client }) => {
    const schedule = await client.schedules.get(params.name);
    if (schedule === undefined || !mayStart(caller, schedule.definition)) {
      throw scheduleNotFound(params.name);
    }
  });
}

/** Runs `check` before the handler of a route. A value that it returns is the response. */
function guarded<Name extends RouteName>(
  name: Name,
  check: (call: never, context: ServerContext) => Promise<unknown>,
): Handlers<Routes>[Name] {
  const handler = handlers[name] as unknown as AnyHandler;
  const run: AnyHandler = async (call, context) =>
    (await check(call as never, context)) ?? handler(call, context);
  return run as unknown as Handlers<Routes>[Name];
}

function mayStart(
  caller: Caller,
  definition: { readonly starts: { readonly name: string } } | undefined,
): boolean {
  return definition !== undefined && allows(caller, definition.starts.name);
}

/** Restricts a filter to the definitions of the caller. Throws 403 for other names in it. */
function withNames<Filter extends { readonly name?: string | readonly string[] | undefined }>(
  filter: Filter | undefined,
  { definitions }: Caller,
): Filter & { name: string[] } {
  const allowed = definitions?.patterns ?? [];
  const given = filter?.name === undefined ? allowed : [filter.name].flat();
  for (const name of given) if (definitions?.has(name) !== true) throw forbiddenDefinition(name);
  return { ...(filter as Filter), name: [...given] };
}
