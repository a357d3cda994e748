import type { JobRequest } from '../../jobs/backend.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import { encodeMessage } from '../../model/message.ts';
import { encodeTaskOptions } from '../../model/work-item-options.ts';
import type { NewJob } from '../../providers/contract/sessions.ts';
import { toTaskTimes } from '../starting/task-request.ts';

/** A job as the store takes it. */
export function toNewJob(request: JobRequest, nowMs: number): NewJob {
  const { key, name, version, payload, disposable, task } = request;
  const { sessionId, instanceId, incarnation } = key;
  const job = { sessionId, disposable };
  const run = { instanceId, incarnation, name, inputHash: inputHash(payload) };
  if (task === null) {
    const start = encodeMessage({ kind: 'start', name, version, payload });
    return { ...job, kind: 'orchestration', instance: { ...run, version, start } };
  }
  const { priority, dedupeKey, headers, onFail, delayMs, expiresInMs } = task;
  const options = encodeTaskOptions(headers);
  const times = { delayMs, runAt: task.runAt, expiresInMs, expiresAt: task.expiresAt };
  return {
    ...job,
    kind: 'task',
    task: {
      ...run,
      payload,
      options,
      priority,
      ...toTaskTimes(times, nowMs),
      ...(dedupeKey !== undefined && { dedupeKey }),
      ...(onFail && { onFail: { options } }),
    },
  };
}
