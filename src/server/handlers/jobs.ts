import type { z } from 'zod';
import { readRunTaskOptions } from '../../client/task-request.ts';
import type { JobChunks, JobReply, JobRequest, JobStop } from '../../jobs/backend.ts';
import { cleanReason } from '../../model/cancel.ts';
import { isPerdureError } from '../../model/errors.ts';
import { checkInstanceId, checkName } from '../../model/names.ts';
import { decodePayload, encodePayload } from '../../model/payload.ts';
import type { JobKey } from '../../providers/sessions.ts';
import { actorOf, type Handlers } from '../call.ts';
import { firstSettled } from '../first-settled.ts';
import { fitting } from '../fitting.ts';
import type { jobRoutes, newJob } from '../routes/jobs.ts';
import { longestPollMs } from '../routes/route.ts';
import type { Caller } from '../tokens.ts';
import { toWireError } from '../wire-error.ts';
import { showInstance } from './shown.ts';

type WireKey = { readonly id: string; readonly incarnation: string };

const cleanupMs = 5 * 60_000;
const chunksAtOnce = 100;
// Chunks are forgotten as the next ones are read, so few are under way that a broken connection could lose.
const streamedAtOnce = 16;

/** Jobs of sessions. */
export const jobHandlers: Handlers<typeof jobRoutes> = {
  async submitJobs({ params, body, caller }, { jobs, owners, payloadLimitBytes, showStacks }) {
    await owners.check(params.id, caller);
    const results = await Promise.allSettled(
      body.jobs.map(async (job) => jobs.submit(toRequest(params.id, job, payloadLimitBytes))),
    );
    // A server that goes away is asked again, there or elsewhere, and what was submitted finds itself.
    const gone = results.find(
      (result) => result.status === 'rejected' && isPerdureError(result.reason, 'CLOSED'),
    );
    if (gone?.status === 'rejected') throw gone.reason;
    return {
      results: results.map((result) =>
        result.status === 'fulfilled' ? {} : { error: toWireError(result.reason, showStacks) },
      ),
    };
  },
  async waitForJobs({ params, body, caller, signal }, { jobs, owners, showStacks }) {
    await owners.check(params.id, caller);
    const { timeoutMs = longestPollMs } = body;
    const replies = await firstSettled(timeoutMs, signal, (inner) =>
      body.jobs.map(async ({ id, incarnation }) => {
        const key = toKey(params.id, { id, incarnation });
        return { id, incarnation, reply: await replyOf(jobs.wait(key, inner), inner) };
      }),
    );
    return {
      replies: fitting(replies, ({ reply }) => lengthOf(reply)).map(({ reply, ...key }) => ({
        ...key,
        reply: showReply(reply, showStacks),
      })),
    };
  },
  async takeJobs({ params, body, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    await Promise.all(body.jobs.map((key) => jobs.take(toKey(params.id, key))));
    return {};
  },
  async abandonJobs({ params, body, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const keys = body.jobs.map((key) => toKey(params.id, key));
    return { results: [...(await jobs.abandonAll(keys, toStop(body, caller)))] };
  },
  async cancelJobs({ params, body, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const stop = toStop(body, caller);
    const results = body.jobs.map((key) => jobs.cancel(toKey(params.id, key), stop));
    return { results: await Promise.all(results) };
  },
  async getJob({ params, query, caller }, { jobs, owners, showStacks }) {
    await owners.check(params.id, caller);
    const key = toKey(params.id, { id: params.jobId, incarnation: query.incarnation });
    return showInstance(await jobs.status(key), showStacks);
  },
  async readChunks({ params, body, caller, signal }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const { reads, timeoutMs = longestPollMs } = body;
    const found = await firstSettled(timeoutMs, signal, (inner) =>
      reads.map(async ({ id, incarnation, after = 0, limit = chunksAtOnce }) => {
        const request = { after, limit, wait: true };
        const page = await jobs.read(toKey(params.id, { id, incarnation }), request, inner);
        return { id, incarnation, page };
      }),
    );
    return {
      pages: fitting(found, ({ page }) => lengthOfPage(page)).map(({ page, ...key }) => ({
        ...key,
        ...showChunks(page),
      })),
    };
  },
  async *streamJob({ params, body, caller, signal }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const key = toKey(params.id, { id: params.jobId, incarnation: body.incarnation });
    let { after = 0 } = body;
    for (;;) {
      const request = { after, limit: streamedAtOnce, wait: true };
      const { chunks, over } = showChunks(await jobs.read(key, request, signal));
      for (const chunk of chunks) {
        yield { kind: 'chunk', ...chunk };
        after = chunk.seq;
      }
      if (over && chunks.length < streamedAtOnce) break;
    }
    yield { kind: 'over' };
  },
};

function toKey(sessionId: string, { id, incarnation }: WireKey): JobKey {
  return { sessionId, instanceId: id, incarnation };
}

function toRequest(
  sessionId: string,
  job: z.output<typeof newJob>,
  payloadLimitBytes: number,
): JobRequest {
  const { kind, version, input, disposable = false } = job;
  const name = checkName(job.name, `${kind === 'task' ? 'Task' : 'Orchestration'} name`);
  return {
    key: { sessionId, instanceId: checkInstanceId(job.id), incarnation: job.incarnation },
    kind,
    name,
    version:
      kind === 'task' || version === undefined ? null : checkName(version, 'Orchestration version'),
    payload: encodePayload(input, `The input of ${JSON.stringify(name)}`, payloadLimitBytes),
    disposable,
    task: kind === 'task' ? toTaskOptions(name, job.task ?? {}) : null,
  };
}

function toTaskOptions(
  name: string,
  { delayMs, expiresInMs, onFail = false, ...rest }: NonNullable<z.output<typeof newJob>['task']>,
): JobRequest['task'] {
  const options = { ...rest, delay: delayMs, expiresIn: expiresInMs };
  const { id: _, ...chosen } = readRunTaskOptions(options, {
    name,
    schema: undefined,
    defaults: undefined,
  });
  return { ...chosen, onFail };
}

function toStop(
  body: {
    readonly reason?: string | undefined;
    readonly actor?: string | undefined;
    readonly cleanupMs?: number | undefined;
  },
  caller: Caller,
): JobStop {
  return {
    reason: cleanReason(body.reason),
    actor: actorOf(caller, body.actor) ?? null,
    cleanupMs: body.cleanupMs ?? cleanupMs,
  };
}

/** A run that cannot be waited for, because it is no more, has that for its reply. */
async function replyOf(wait: Promise<JobReply>, signal: AbortSignal): Promise<JobReply> {
  try {
    return await wait;
  } catch (error) {
    // A server that goes away is asked again, there or elsewhere: the job has not ended with it.
    if (signal.aborted || isPerdureError(error, 'CLOSED')) throw error;
    return { kind: 'error', error: error as Error };
  }
}

function showReply(reply: JobReply, showStacks: boolean) {
  if (reply.kind === 'error') {
    return { kind: 'error' as const, error: toWireError(reply.error, showStacks) };
  }
  const output = decodePayload(reply.output);
  return { kind: 'completed' as const, ...(output !== undefined && { output }) };
}

function showChunks({ chunks, over }: JobChunks) {
  return {
    chunks: chunks.map(({ seq, payload }) => ({ seq, value: decodePayload(payload) })),
    over,
  };
}

function lengthOf(reply: JobReply): number {
  return reply.kind === 'completed' ? (reply.output?.length ?? 0) : 0;
}

function lengthOfPage({ chunks }: JobChunks): number {
  return chunks.reduce((sum, { payload }) => sum + payload.length, 0);
}
