import type { NewInstance } from '../../contract/instances.ts';
import type { NewJob, SubmitJobResult } from '../../contract/sessions.ts';
import { create } from '../instances/instances.ts';
import type { IdHolder } from './job-rows.ts';
import { keyOf } from './jobs.ts';
import type { Scope } from '../driver/scope.ts';
import type { SessionRow } from './session-rows.ts';
import type { Store } from '../store.ts';
import { createTasks } from '../tasks/tasks.ts';

interface OpenJob {
  readonly index: number;
  readonly job: NewJob;
}

type Created = SubmitJobResult | { readonly kind: 'created'; readonly instanceKey: number };

/** Creates runs as jobs of their sessions, which stay as they are meanwhile. */
export async function submitJobs(
  store: Store,
  scope: Scope,
  jobs: readonly NewJob[],
): Promise<readonly SubmitJobResult[]> {
  const sessionIds = [...new Set(jobs.map(({ sessionId }) => sessionId))];
  const [rows] = await scope.begin(store.sessionRows.share(scope.tx, sessionIds));
  const sessions = new Map(rows.map((row) => [row.sessionId, row]));
  const results: (SubmitJobResult | undefined)[] = jobs.map(() => undefined);
  // Again, for what is not the first of its id, or was not there when it was looked for.
  for (;;) {
    const open = jobs.flatMap((job, index) =>
      results[index] === undefined ? [{ index, job }] : [],
    );
    if (open.length === 0) break;
    for (const { index, result } of await submitRound(store, scope, { open, sessions })) {
      results[index] = result;
    }
  }
  return results.flatMap((result) => result ?? []);
}

async function submitRound(
  store: Store,
  scope: Scope,
  {
    open,
    sessions,
  }: { readonly open: readonly OpenJob[]; readonly sessions: ReadonlyMap<string, SessionRow> },
): Promise<readonly { readonly index: number; readonly result: SubmitJobResult }[]> {
  const ids = new Set(open.map(({ job }) => keyOf(job).instanceId));
  const holders = await store.jobRows.holders(scope.tx, [...ids]);
  await store.definitions.load(
    scope.tx,
    holders.map(({ definitionKey }) => definitionKey),
  );
  const byId = new Map(holders.map((holder) => [holder.instanceId, holder]));
  const answers: { index: number; result: SubmitJobResult }[] = [];
  const wanted: OpenJob[] = [];
  for (const one of open) {
    const { instanceId } = keyOf(one.job);
    const result = judge(store, one.job, {
      holder: byId.get(instanceId),
      session: sessions.get(one.job.sessionId),
    });
    if (result !== undefined) answers.push({ index: one.index, result });
    else if (ids.delete(instanceId)) wanted.push(one);
  }
  const created = await createRuns(store, scope, wanted);
  const rows = wanted.flatMap(({ job }, place) => {
    const result = created[place];
    const session = sessions.get(job.sessionId);
    if (result === undefined || !('instanceKey' in result) || session === undefined) return [];
    const { name } = job.kind === 'task' ? job.task : job.instance;
    const { instanceKey } = result;
    const isTask = job.kind === 'task';
    return [
      { instanceKey, sessionKey: session.sessionKey, isTask, name, disposable: job.disposable },
    ];
  });
  await store.jobRows.insert(scope.tx, rows);
  for (const [place, { index }] of wanted.entries()) {
    const result = created[place];
    // Somebody else was faster: the next round sees who.
    if (result === undefined || result.kind === 'exists' || result.kind === 'conflict') continue;
    answers.push({ index, result: result.kind === 'created' ? { kind: 'created' } : result });
  }
  return answers;
}

/** The answer for a job that is not to be created. */
function judge(
  { definitions }: Store,
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
  if (holder === undefined) return undefined;
  return { kind: 'conflict', name: definitions.get(holder.definitionKey).name };
}

async function createRuns(
  store: Store,
  scope: Scope,
  wanted: readonly OpenJob[],
): Promise<readonly (Created | undefined)[]> {
  const instances: NewInstance[] = [];
  const tasks = wanted.flatMap(({ job }) => (job.kind === 'task' ? [job.task] : []));
  for (const { job } of wanted) {
    if (job.kind === 'orchestration') instances.push(withoutTurn(job.instance));
  }
  const started = instances.length === 0 ? [] : await create(store, scope, instances);
  const ran = tasks.length === 0 ? [] : await createTasks(store, scope, tasks);
  let [nextStarted, nextRan] = [0, 0];
  return wanted.map(({ job }) => (job.kind === 'task' ? ran[nextRan++] : started[nextStarted++]));
}

// A first turn may claim work for a worker that this call has no way to tell.
function withoutTurn(instance: Omit<NewInstance, 'firstTurn'>): NewInstance {
  const { instanceId, incarnation, name, version, inputHash, start } = instance;
  return { instanceId, incarnation, name, version, inputHash, start };
}
