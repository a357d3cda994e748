import { isTerminal } from '../../../model/status.ts';
import type { StopResult } from '../../contract/cancellation.ts';
import { nextCheckAt } from '../../rules/session-rules.ts';
import type { AbandonJob, JobKey, NewJob, SettledResult } from '../../contract/sessions.ts';
import type { Batch } from '../batches/changes.ts';
import type { StopRequest } from '../stopping/instance-stops.ts';
import type { JobRow } from './job-rows.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';

/** The key of a job that is to be created. */
export function keyOf(job: NewJob): JobKey {
  const { instanceId, incarnation } = job.kind === 'task' ? job.task : job.instance;
  return { sessionId: job.sessionId, instanceId, incarnation };
}

/** Forgets jobs whose replies have reached their callers. */
export async function takeJobs(
  store: Store,
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

/** Tells what became of late results that were claimed. */
export async function settleAbandoned(
  store: Store,
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
    // Its caller may have come back for the reply.
    if (row === undefined || row.disposeAt === null) continue;
    const { instanceKey } = row;
    if (retryInMs === null) done.push(instanceKey);
    else again.push({ instanceKey, checkAt: null, disposeAt: scope.now + Math.ceil(retryInMs) });
  }
  await Promise.all([store.jobRows.delete(tx, done), store.jobRows.setTimes(tx, again)]);
  return settled.map(() => undefined);
}

/** Locks the jobs that are meant by their whole keys. */
async function lockNamed(
  store: Store,
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

/** Marks jobs whose callers have gone, and asks their runs to stop. */
export async function abandonJobs(
  store: Store,
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
    // A job goes once its reply was taken; whoever knows the incarnation was its caller.
    const isOther = job !== undefined && job.sessionId !== request.sessionId;
    return isOther ? undefined : { ...request, instanceKey: row.instanceKey, job };
  });
  const wanted = meant.flatMap((one) => (one?.job === undefined ? [] : [one]));
  const changed = await abandon(store, batch, {
    jobs: [...new Set(wanted.map(({ job }) => job))].filter((job) => job !== undefined),
    requests: wanted,
  });
  const changes = new Map(wanted.map((one, index) => [one, changed[index] === true]));
  // Of a run that nobody asked to stop the row does not say whether it has started.
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

/** Abandons jobs that are locked, with their instances; says for each request whether it stopped a run. */
export async function abandon(
  store: Store,
  batch: Batch,
  {
    jobs,
    requests,
  }: { readonly jobs: readonly JobRow[]; readonly requests: readonly StopRequest[] },
): Promise<readonly boolean[]> {
  const { scope, instances } = batch;
  const changed = await store.stops.request(batch, requests);
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

/** The runs of abandoned jobs are over: their results are disposed of, or there are none. */
export async function endAbandoned(
  { jobRows }: Store,
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
