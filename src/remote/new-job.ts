import type { JobRequest } from '../jobs/backend.ts';
import { decodePayload } from '../model/values/payload.ts';
import type { Request } from './operations.ts';

type NewJob = Request<'submitJobs'>['body']['jobs'][number];

/** A job as it travels. */
export function toNewJob(request: JobRequest): NewJob {
  const { key, kind, name, version, payload, disposable, task } = request;
  return {
    id: key.instanceId,
    incarnation: key.incarnation,
    kind,
    name,
    ...(version !== null && { version }),
    ...(payload !== null && { input: decodePayload(payload) }),
    disposable,
    ...(task !== null && { task: toTask(task) }),
  };
}

function toTask({
  headers,
  ...task
}: NonNullable<JobRequest['task']>): NonNullable<NewJob['task']> {
  return { ...task, ...(headers !== undefined && { headers: { ...headers } }) };
}
