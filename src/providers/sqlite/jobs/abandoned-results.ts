import type { AbandonedResult, SessionStore, SettledResult } from '../../contract/sessions.ts';
import type { Store } from '../store.ts';

/** Claims results of completed runs whose callers have gone. */
export function claimAbandoned(
  { jobRows }: Store,
  now: number,
  request: Parameters<SessionStore['claimAbandoned']>[0],
): readonly AbandonedResult[] {
  const { orchestrations, tasks, limit, lockMs } = request;
  const claim = { now, lockedUntil: now + Math.ceil(lockMs) };
  const rows = [...jobRows.claim({ ...claim, names: orchestrations, isTask: false, limit })];
  rows.push(...jobRows.claim({ ...claim, names: tasks, isTask: true, limit: limit - rows.length }));
  return rows.map(({ sessionId, instanceId, incarnation, isTask, name, output, attempts }) => ({
    key: { sessionId, instanceId, incarnation },
    kind: isTask === 1 ? 'task' : 'orchestration',
    name,
    output,
    attempt: attempts + 1,
  }));
}

/** A result was disposed of, or is to be tried again. */
export function settleAbandoned({ jobRows }: Store, now: number, settled: SettledResult): void {
  const job = jobRows.find(settled.key);
  // Its caller may have come back for the reply.
  if (job === undefined || job.disposeAt === null) return;
  if (settled.retryInMs === null) jobRows.delete(job);
  else jobRows.setDispose(job.instanceKey, now + Math.ceil(settled.retryInMs));
}
