import assert from 'node:assert/strict';
import { randomToken } from '../../model/values/random-id.ts';
import type {
  AbandonedResult,
  AbandonJob,
  DueSessions,
  JobKey,
  NewJob,
  NewSession,
  SessionRecord,
  SubmitJobResult,
} from '../../providers/contract/sessions.ts';
import type { StopResult } from '../../providers/contract/cancellation.ts';
import type { NewInstance } from '../../providers/contract/instances.ts';
import type { NewTask } from '../../providers/contract/tasks.ts';
import type { Turn } from '../../providers/contract/turn.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import { expectCommitted, only } from './expectations.ts';
import { cleanupMs, newInstance } from './sample-data.ts';
import type { StoreUnderTest } from './store-under-test.ts';
import { newTask } from './task-helpers.ts';

/** The default lease of sessions. */
export const leaseMs = 30_000;

export function newSession(sessionId: string, parts: Partial<NewSession> = {}): NewSession {
  return { sessionId, label: null, owner: null, leaseMs, variables: {}, ...parts };
}

export function openSession(
  { provider }: StoreUnderTest,
  sessionId = 's',
  parts: Partial<NewSession> = {},
): Promise<SessionRecord> {
  return provider.openSession(newSession(sessionId, parts));
}

export async function readSession(
  { provider }: StoreUnderTest,
  sessionId = 's',
): Promise<SessionRecord> {
  const [session] = await provider.getSessions([sessionId]);
  assert.ok(session, `${sessionId} should exist`);
  return session;
}

/** A task run as a job. */
export function taskJob(
  instanceId: string,
  { sessionId = 's', disposable = false, ...task }: Partial<NewTask> & JobParts = {},
): NewJob {
  return { kind: 'task', sessionId, disposable, task: newTask(instanceId, task) };
}

/** An orchestration as a job. */
export function orchestrationJob(
  instanceId: string,
  { sessionId = 's', disposable = false, ...parts }: Partial<NewInstance> & JobParts = {},
): NewJob {
  const instance = newInstance(instanceId, parts);
  return { kind: 'orchestration', sessionId, disposable, instance };
}

interface JobParts {
  readonly sessionId?: string;
  readonly disposable?: boolean;
}

export function keyOf(job: NewJob): JobKey {
  const { instanceId, incarnation } = job.kind === 'task' ? job.task : job.instance;
  return { sessionId: job.sessionId, instanceId, incarnation };
}

/** Returns the key of another incarnation of the same id. */
export function otherIncarnation(key: JobKey): JobKey {
  return { ...key, incarnation: randomToken() };
}

export async function submit({ provider }: StoreUnderTest, job: NewJob): Promise<SubmitJobResult> {
  return only(await provider.submitJobs([job]), 'result');
}

/** Submits jobs, expects that they are new, and returns their keys. */
export async function submitAll(
  { provider }: StoreUnderTest,
  jobs: readonly NewJob[],
): Promise<readonly JobKey[]> {
  const results = await provider.submitJobs(jobs);
  assert.deepEqual(
    results,
    jobs.map(() => ({ kind: 'created' })),
  );
  return jobs.map(keyOf);
}

/** Submits a task run and claims it. No other work item may be claimable. */
export async function startJob(
  store: StoreUnderTest,
  instanceId: string,
  parts: Partial<NewTask> & JobParts = {},
): Promise<{ readonly key: JobKey; readonly item: WorkItem }> {
  const key = only(await submitAll(store, [taskJob(instanceId, parts)]), 'key');
  const item = await store.claimWorkOne();
  assert.equal(item.instanceId, instanceId);
  return { key, item };
}

/** Submits an orchestration and commits its first turn. No other instance may be claimable. */
export async function startOrchestration(
  store: StoreUnderTest,
  instanceId: string,
  turn: Partial<Turn> = {},
  parts: JobParts = {},
): Promise<JobKey> {
  const key = only(await submitAll(store, [orchestrationJob(instanceId, parts)]), 'key');
  const item = await store.claimOne();
  assert.equal(item.instanceId, instanceId);
  await store.commit(item, turn);
  return key;
}

/** Submits a task run that completes after its caller abandoned it. */
export async function completeLate(
  store: StoreUnderTest,
  instanceId: string,
  parts: Partial<NewTask> & JobParts = {},
): Promise<JobKey> {
  const { key, item } = await startJob(store, instanceId, parts);
  assert.equal((await store.provider.markPointOfNoReturn(item.lockToken)).kind, 'passed');
  await abandon(store, key);
  expectCommitted(await store.ackWork(item.lockToken));
  return key;
}

export async function abandon(
  { provider }: StoreUnderTest,
  key: JobKey,
  parts: Partial<AbandonJob> = {},
): Promise<StopResult> {
  const request = { ...key, reason: 'closed', actor: null, cleanupMs, ...parts };
  return only(await provider.abandonJobs([request]), 'result');
}

/** Returns the ids of a session's jobs, sorted. */
export async function jobIds(
  { provider }: StoreUnderTest,
  sessionId = 's',
): Promise<readonly string[]> {
  const jobs = await provider.listJobs({ sessionId, limit: 1_000 });
  return jobs.map(({ instanceId }) => instanceId).toSorted();
}

export async function settle(
  { provider }: StoreUnderTest,
  sessionId = 's',
  limit = 100,
): Promise<SessionRecord> {
  const session = await provider.settleSession(sessionId, limit);
  assert.ok(session, `${sessionId} should exist`);
  return session;
}

export function due({ provider }: StoreUnderTest): Promise<DueSessions> {
  return provider.dueSessions(100);
}

export function claimResults(
  { provider }: StoreUnderTest,
  tasks: readonly string[] = ['task'],
  orchestrations: readonly string[] = ['sample'],
): Promise<readonly AbandonedResult[]> {
  return provider.claimAbandoned({ tasks, orchestrations, limit: 100, lockMs: 10_000 });
}
