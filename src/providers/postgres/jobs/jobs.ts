import { isTerminal } from '../../../model/status.ts';
import type { StopResult } from '../../contract/cancellation.ts';
import type { InstanceRecord, NewInstance, NewMessage } from '../../contract/instances.ts';
import type {
  AbandonJob,
  JobKey,
  NewJob,
  SettledResult,
  SubmitJobResult,
} from '../../contract/sessions.ts';
import type { NewTask } from '../../contract/tasks.ts';
import { nextCheckAt } from '../../rules/session-rules.ts';
import { deletedStartKey } from '../../shared/deleted-starts.ts';
import type { Batch } from '../batches/batch.ts';
import type { CreateInstances } from '../batches/store-access.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Scope } from '../driver/scope.ts';
import type { StopStore } from '../stopping/cancellation.ts';
import type { StopRequest } from '../stopping/instance-stops.ts';
import { createTasks, type TaskTables } from '../tasks/tasks.ts';
import type { IdHolder, JobRow, JobRows } from './job-rows.ts';
import type { SessionRow, SessionRows } from './session-rows.ts';

interface JobTable {
  readonly jobRows: JobRows;
}

/** The store parts that an abandoned job needs. */
export type AbandonParts = JobTable &
  StopStore & {
    readonly instanceRecords: {
      get(
        tx: Transaction,
        instanceIds: readonly string[],
      ): Promise<readonly (InstanceRecord | undefined)[]>;
    };
  };

/** The store parts that a submit needs. */
export type SubmitParts = JobTable & TaskTables & { readonly sessionRows: SessionRows };

function runOf(job: NewJob): NewTask | Omit<NewInstance, 'firstTurn'> {
  return job.kind === 'task' ? job.task : job.instance;
}

/** Whether a job replaces the run that has its id. */
function isReplacing(job: NewJob): boolean {
  return runOf(job).onConflict === 'terminateExisting';
}

/** The key of a new job. */
function keyOf(job: NewJob): JobKey {
  const { instanceId, incarnation } = runOf(job);
  return { sessionId: job.sessionId, instanceId, incarnation };
}

/** Deletes ended jobs whose callers took the replies. */
export async function takeJobs(
  store: JobTable,
  { tx }: Scope,
  keys: readonly JobKey[],
): Promise<readonly undefined[]> {
  const rows = await lockNamed(store, { tx }, keys);
  const taken = rows.flatMap((row) =>
    row !== undefined && isTerminal(row.status) ? [row.instanceKey] : [],
  );
  await store.jobRows.delete(tx, taken);
  return keys.map(() => undefined);
}

/** Deletes late results that were processed, and schedules the others for a retry. */
export async function settleAbandoned(
  store: JobTable,
  scope: Scope,
  settled: readonly SettledResult[],
): Promise<readonly undefined[]> {
  const { tx } = scope;
  const keys = settled.map(({ key }) => key);
  const [rows] = await scope.begin(lockNamed(store, scope, keys));
  const done: number[] = [];
  const again: { instanceKey: number; checkAt: null; disposeAt: number }[] = [];
  for (const [index, { retryInMs }] of settled.entries()) {
    const row = rows[index];
    // The caller may have taken the reply meanwhile.
    if (row === undefined || row.disposeAt === null) continue;
    const { instanceKey } = row;
    if (retryInMs === null) done.push(instanceKey);
    else again.push({ instanceKey, checkAt: null, disposeAt: scope.now + Math.ceil(retryInMs) });
  }
  await Promise.all([store.jobRows.delete(tx, done), store.jobRows.setTimes(tx, again)]);
  return settled.map(() => undefined);
}

/** Locks jobs by key. `undefined` for one of another session or incarnation. */
async function lockNamed(
  store: JobTable,
  { tx }: Pick<Scope, 'tx'>,
  keys: readonly JobKey[],
): Promise<readonly (JobRow | undefined)[]> {
  const ids = new Set(keys.map(({ instanceId }) => instanceId));
  const rows = await store.jobRows.lock(tx, [...ids]);
  const byId = new Map(rows.map((row) => [row.instanceId, row]));
  return keys.map(({ instanceId, incarnation, sessionId }) => {
    const row = byId.get(instanceId);
    return row?.incarnation === incarnation && row.sessionId === sessionId ? row : undefined;
  });
}

/** Marks jobs as abandoned, and cancels their runs. */
export async function abandonJobs(
  store: AbandonParts,
  scope: Scope,
  requests: readonly AbandonJob[],
): Promise<readonly StopResult[]> {
  const batch = store.newBatch(scope);
  const { instances } = batch;
  const ids = [...new Set(requests.map(({ instanceId }) => instanceId))];
  await scope.begin(instances.lock({ ids, parents: 'ending' }));
  const found = ids.flatMap((id) => instances.find(id)?.instanceKey ?? []);
  const jobs = await store.jobRows.lockByKey(scope.tx, found);
  const byKey = new Map(jobs.map((job) => [job.instanceKey, job]));
  const meant = requests.map((request) => {
    const row = instances.find(request.instanceId);
    if (row?.incarnation !== request.incarnation) return undefined;
    const job = byKey.get(row.instanceKey);
    // A job is deleted once its reply was taken. Only its caller knows the incarnation.
    const isOther = job !== undefined && job.sessionId !== request.sessionId;
    return isOther ? undefined : { ...request, instanceKey: row.instanceKey, job };
  });
  const wanted = meant.flatMap((one) => (one?.job === undefined ? [] : [one]));
  const changed = await abandon(store, batch, {
    jobs: [...new Set(wanted.map(({ job }) => job))].filter((job) => job !== undefined),
    requests: wanted,
  });
  const changes = new Map(wanted.map((one, index) => [one, changed[index] === true]));
  // The locked row of a run that was not canceled does not show whether it has started.
  const others = meant.flatMap((one) =>
    one === undefined || changes.has(one) ? [] : [one.instanceId],
  );
  const records = await store.instanceRecords.get(scope.tx, others);
  const statuses = new Map(records.map((record) => [record?.instanceKey, record?.status]));
  return meant.map((one): StopResult => {
    if (one === undefined) return { found: false, changed: false, status: null };
    const { instanceKey } = one;
    const status = statuses.get(instanceKey) ?? instances.get(instanceKey)?.status ?? null;
    return { found: true, changed: changes.get(one) ?? false, status };
  });
}

/** Abandons locked jobs with locked instances. Returns for each request whether it canceled a run. */
export async function abandon(
  store: JobTable & StopStore,
  batch: Batch,
  {
    jobs,
    requests,
  }: { readonly jobs: readonly JobRow[]; readonly requests: readonly StopRequest[] },
): Promise<readonly boolean[]> {
  const { scope, instances } = batch;
  const changed = await store.stops.requestCancel(batch, requests);
  await batch.changes.write(scope, store);
  const { tx, now } = scope;
  const marked = jobs.filter(({ abandonedAt }) => abandonedAt === null);
  await store.jobRows.abandon(
    tx,
    marked.map(({ instanceKey }) => instanceKey),
    { now, checkAt: nextCheckAt(now, now) },
  );
  const ended = jobs.flatMap((job) => {
    const status = instances.get(job.instanceKey)?.status ?? job.status;
    return isTerminal(status) ? [{ ...job, status }] : [];
  });
  await endAbandoned(store, scope, ended);
  return changed;
}

/** Makes late results of ended runs claimable, and deletes the other jobs. */
export async function endAbandoned(
  { jobRows }: JobTable,
  { tx, now }: Scope,
  jobs: readonly JobRow[],
): Promise<void> {
  const isLateResult = ({ disposable, status }: JobRow) => disposable && status === 'completed';
  const late = jobs.filter((job) => isLateResult(job) && job.disposeAt === null);
  const others = jobs.filter((job) => !isLateResult(job));
  await Promise.all([
    jobRows.setTimes(
      tx,
      late.map(({ instanceKey }) => ({ instanceKey, checkAt: null, disposeAt: now })),
    ),
    jobRows.delete(
      tx,
      others.map(({ instanceKey }) => instanceKey),
    ),
  ]);
}

interface OpenJob {
  readonly index: number;
  readonly job: NewJob;
}

type Created = SubmitJobResult | { readonly kind: 'created'; readonly instanceKey: number };

/** The operations on instances that a submit needs. */
export interface SubmitPaths {
  readonly createInstances: CreateInstances;
  readonly enqueue: (scope: Scope, messages: readonly NewMessage[]) => Promise<unknown>;
}

/** Creates runs as jobs of their sessions. Share-locks the sessions. */
export async function submitJobs(
  store: SubmitParts,
  scope: Scope,
  { jobs, ...paths }: SubmitPaths & { readonly jobs: readonly NewJob[] },
): Promise<readonly SubmitJobResult[]> {
  const sessionIds = [...new Set(jobs.map(({ sessionId }) => sessionId))];
  const [rows] = await scope.begin(store.sessionRows.share(scope.tx, sessionIds));
  const sessions = new Map(rows.map((row) => [row.sessionId, row]));
  const results: (SubmitJobResult | undefined)[] = jobs.map(() => undefined);
  // Another round for jobs that are not the first of their id, or lost a race for it.
  for (;;) {
    const open = jobs.flatMap((job, index) =>
      results[index] === undefined ? [{ index, job }] : [],
    );
    if (open.length === 0) break;
    for (const { index, result } of await submitRound(store, scope, {
      open,
      sessions,
      ...paths,
    })) {
      results[index] = result;
    }
  }
  return results.flatMap((result) => result ?? []);
}

async function submitRound(
  store: SubmitParts,
  scope: Scope,
  {
    open,
    sessions,
    createInstances,
    enqueue,
  }: SubmitPaths & {
    readonly open: readonly OpenJob[];
    readonly sessions: ReadonlyMap<string, SessionRow>;
  },
): Promise<readonly { readonly index: number; readonly result: SubmitJobResult }[]> {
  const ids = new Set(open.map(({ job }) => keyOf(job).instanceId));
  const holders = await store.jobRows.holders(scope.tx, [...ids]);
  await store.definitions.load(
    scope.tx,
    holders.map(({ definitionKey }) => definitionKey),
  );
  const byId = new Map(holders.map((holder) => [holder.instanceId, holder]));
  const repeats = open.map(({ job }) => runOf(job));
  const deleted = await store.deletedStarts.find(scope.tx, repeats);
  const results: { index: number; result: SubmitJobResult }[] = [];
  const wanted: OpenJob[] = [];
  for (const one of open) {
    const { instanceId } = keyOf(one.job);
    if (deleted.size > 0 && deleted.has(deletedStartKey(runOf(one.job)))) {
      results.push({ index: one.index, result: { kind: 'exists' } });
      continue;
    }
    const result = refuse(store, one.job, {
      holder: byId.get(instanceId),
      session: sessions.get(one.job.sessionId),
    });
    if (result !== undefined) results.push({ index: one.index, result });
    else if (ids.delete(instanceId)) wanted.push(one);
  }
  const created = await createRuns(store, scope, { wanted, createInstances });
  const rows = wanted.flatMap(({ job }, place) => {
    const result = created[place];
    const session = sessions.get(job.sessionId);
    if (result === undefined || !('instanceKey' in result) || session === undefined) return [];
    const { name } = runOf(job);
    const { instanceKey } = result;
    const isTask = job.kind === 'task';
    return [
      { instanceKey, sessionKey: session.sessionKey, isTask, name, disposable: job.disposable },
    ];
  });
  await store.jobRows.insert(scope.tx, rows);
  const events = wanted.flatMap(({ job }, place) => {
    const event = job.kind === 'orchestration' ? job.instance.event : undefined;
    const isCreated = created[place]?.kind === 'created';
    const { instanceId } = keyOf(job);
    return event !== undefined && isCreated ? [{ instanceId, ...event }] : [];
  });
  if (events.length > 0) await enqueue(scope, events);
  for (const [place, { index, job }] of wanted.entries()) {
    const result = created[place];
    // Another process took the id. The next round reads its instance.
    if (result === undefined || result.kind === 'exists') continue;
    if (result.kind === 'conflict' && !isReplacing(job)) continue;
    results.push({ index, result: result.kind === 'created' ? { kind: 'created' } : result });
  }
  return results;
}

/** The result for a job that must not be created. */
function refuse(
  { definitions }: SubmitParts,
  job: NewJob,
  {
    holder,
    session,
  }: { readonly holder: IdHolder | undefined; readonly session: SessionRow | undefined },
): SubmitJobResult | undefined {
  if (holder?.incarnation === keyOf(job).incarnation) return { kind: 'exists' };
  if (session?.state !== 'open') {
    return { kind: 'sessionClosed', state: session?.state ?? 'missing' };
  }
  if (holder === undefined || isReplacing(job)) return undefined;
  return { kind: 'conflict', name: definitions.get(holder.definitionKey).name };
}

async function createRuns(
  store: TaskTables,
  scope: Scope,
  {
    wanted,
    createInstances,
  }: { readonly wanted: readonly OpenJob[]; readonly createInstances: CreateInstances },
): Promise<readonly (Created | undefined)[]> {
  const instances: NewInstance[] = [];
  const tasks = wanted.flatMap(({ job }) => (job.kind === 'task' ? [job.task] : []));
  for (const { job } of wanted) {
    if (job.kind === 'orchestration') instances.push(withoutTurn(job.instance));
  }
  const started = instances.length === 0 ? [] : await createInstances(scope, instances);
  const ran = tasks.length === 0 ? [] : await createTasks(store, scope, tasks);
  let [nextStarted, nextRan] = [0, 0];
  return wanted.map(({ job }) => (job.kind === 'task' ? ran[nextRan++] : started[nextStarted++]));
}

// A first turn could claim work for a worker, and a submit has no way to return those claims. The event is raised once the
// run is created: it must not reach the instance of another start that took the id.
function withoutTurn(instance: Omit<NewInstance, 'firstTurn'>): NewInstance {
  const { firstTurn: _, event: _event, ...rest }: NewInstance = instance;
  return rest;
}
