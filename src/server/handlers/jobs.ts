import type { z } from 'zod';
import type { LocalJobs } from '../../client/local-jobs.ts';
import { readEventCall } from '../../client/starting/start-request.ts';
import { readRunTaskOptions } from '../../client/starting/task-request.ts';
import { readOnConflict, refuseTaskEvent } from '../../model/admission-options.ts';
import type { ChunkPage, JobReply, JobRequest, JobStop } from '../../jobs/backend.ts';
import { cleanReason } from '../../model/cancel.ts';
import { isPerdureError, notFound } from '../../model/failures/errors.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import { toTrace } from '../../model/trace-context.ts';
import { readStartSettings } from '../../model/start-settings.ts';
import { readPayload } from '../../model/encoding/encoded-value.ts';
import { encodePayload } from '../../model/values/payload.ts';
import type { StopResult } from '../../providers/contract/cancellation.ts';
import type { JobKey } from '../../providers/contract/sessions.ts';
import { allows, forbiddenDefinition, hideDefinitionName } from '../access/allowed-definitions.ts';
import type { Handlers, ServerContext } from '../server-context.ts';
import { BoundedReads, pageByBytes, maxResponseLength, firstSettled } from './long-poll.ts';
import type { JobAccess } from '../access/session-access.ts';
import type { jobRoutes, newJob } from '../routes/jobs.ts';
import { longestPollMs, type ResponseOf } from '../routes/route.ts';
import { actorOf, type Caller } from '../access/tokens.ts';
import { toWireError } from '../http/errors.ts';
import { toInstanceResponse } from './serializers.ts';

type WireKey = { readonly id: string; readonly incarnation: string };

/** Jobs of a session, as named by a caller. */
interface NamedJobs {
  readonly sessionId: string;
  readonly keys: readonly JobKey[];
  readonly caller: Caller;
}

const cleanupMs = 5 * 60_000;
const noChunks: ChunkPage = { chunks: [], over: true };
const nothingYet: ChunkPage = { chunks: [], over: false };
// More concurrent reads would hold more pages in memory without being faster.
const readConcurrency = 8;
const defaultChunkLimit = 100;
// Reading deletes the chunks before. A small page limits what a broken connection loses.
const streamPageSize = 16;

export const jobHandlers: Handlers<typeof jobRoutes> = {
  async submitJobs({ params, body, caller }, context) {
    const { owners, bindings, payloadLimitBytes, showStacks, clock } = context;
    await owners.check(params.id, caller);
    const results = await Promise.allSettled(
      body.jobs.map(async (job) => {
        if (!allows(caller, job.name)) throw forbiddenDefinition(job.name);
        const request = toRequest(params.id, job, { payloadLimitBytes, nowMs: clock.now() });
        const created = await hideDefinitionName(
          caller,
          request.key.instanceId,
          context.createJob(request),
        );
        if (created) bindings.remember(request.key, request.name);
      }),
    );
    // The server is closing: the client repeats the request, which is idempotent.
    const closed = results.find(
      (result) => result.status === 'rejected' && isPerdureError(result.reason, 'CLOSED'),
    );
    if (closed?.status === 'rejected') throw closed.reason;
    return {
      results: results.map((result) =>
        result.status === 'fulfilled' ? {} : { error: toWireError(result.reason, showStacks) },
      ),
    };
  },
  async waitForJobs({ params, body, caller, signal }, context) {
    const { jobs, showStacks } = context;
    const keys = body.jobs.map((key) => toKey(params.id, key));
    const access = await accessTo({ sessionId: params.id, keys, caller }, context);
    const { timeoutMs = longestPollMs } = body;
    const replies = await firstSettled(timeoutMs, signal, (inner) =>
      body.jobs.map(async ({ id, incarnation }, index) => {
        if (access[index]?.kind === 'none') return { id, incarnation, reply: noReply(id) };
        const key = toKey(params.id, { id, incarnation });
        return { id, incarnation, reply: await replyOf(jobs.wait(key, inner), inner) };
      }),
    );
    return {
      replies: pageByBytes(replies, ({ reply }) => lengthOf(reply)).map(({ reply, ...key }) => ({
        ...key,
        reply: toReplyResponse(reply, showStacks),
      })),
    };
  },
  async takeJobs({ params, body, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    await Promise.all(body.jobs.map((key) => jobs.take(toKey(params.id, key))));
    return {};
  },
  async abandonJobs({ params, body, caller }, context) {
    const stop = toStop(body, caller);
    const keys = body.jobs.map((key) => toKey(params.id, key));
    const results = await stopJobs({ sessionId: params.id, keys, caller }, context, (bound) =>
      context.jobs.abandonAll(bound, stop),
    );
    return { results };
  },
  async cancelJobs({ params, body, caller }, context) {
    const stop = toStop(body, caller);
    const keys = body.jobs.map((key) => toKey(params.id, key));
    const results = await stopJobs({ sessionId: params.id, keys, caller }, context, (bound) =>
      Promise.all(bound.map((key) => context.jobs.cancel(key, stop))),
    );
    return { results };
  },
  async getJob({ params, query, caller }, context) {
    const key = toKey(params.id, { id: params.jobId, incarnation: query.incarnation });
    const [access] = await accessTo({ sessionId: params.id, keys: [key], caller }, context);
    if (access?.kind === 'none') throw notFound(params.jobId);
    return toInstanceResponse(await context.jobs.status(key), context.showStacks);
  },
  async readChunks({ params, body, caller, signal }, context) {
    const { jobs } = context;
    const isHidden = await hiddenFrom(params.id, body.reads, caller, context);
    const { reads, timeoutMs = longestPollMs } = body;
    // A request may name 1,000 jobs, or one job 1,000 times, each with up to 4 MiB of chunks.
    const bounds = new BoundedReads({ maxBytes: maxResponseLength, concurrency: readConcurrency });
    const found = await firstSettled(timeoutMs, signal, (inner) =>
      reads.map(async ({ id, incarnation, after = 0, limit = defaultChunkLimit }, index) => {
        if (isHidden[index] === true) return { id, incarnation, page: noChunks };
        const request = { after, limit, wait: true };
        const key = toKey(params.id, { id, incarnation });
        const page = await jobs.read(key, request, inner, async (read) => {
          const page = await bounds.read(
            async () => (inner.aborted ? nothingYet : read()),
            lengthOfPage,
          );
          return page ?? nothingYet;
        });
        return { id, incarnation, page };
      }),
    );
    return {
      pages: pageByBytes(found, ({ page }) => lengthOfPage(page)).map(({ page, ...key }) => ({
        ...key,
        ...toChunksResponse(page),
      })),
    };
  },
  async streamJob({ params, body, caller, signal }, context) {
    const wanted = { id: params.jobId, incarnation: body.incarnation };
    const [isHidden] = await hiddenFrom(params.id, [wanted], caller, context);
    if (isHidden === true) throw notFound(params.jobId);
    return streamChunks(context.jobs, toKey(params.id, wanted), body.after ?? 0, signal);
  },
};

function toKey(sessionId: string, { id, incarnation }: WireKey): JobKey {
  return { sessionId, instanceId: id, incarnation };
}

async function* streamChunks(
  ...[jobs, key, from, signal]: readonly [LocalJobs, JobKey, number, AbortSignal]
): AsyncGenerator<ResponseOf<(typeof jobRoutes)['streamJob']>, void, undefined> {
  let after = from;
  for (;;) {
    const request = { after, limit: streamPageSize, wait: true };
    const { chunks, over } = toChunksResponse(await jobs.read(key, request, signal));
    for (const chunk of chunks) {
      yield { kind: 'chunk', ...chunk };
      after = chunk.seq;
    }
    if (over && chunks.length < streamPageSize) break;
  }
  yield { kind: 'over' };
}

/** Checks that the caller may use the session. Returns the access that each key gives. */
async function accessTo(
  { sessionId, keys, caller }: NamedJobs,
  { owners, bindings }: ServerContext,
): Promise<readonly JobAccess[]> {
  await owners.check(sessionId, caller);
  const access = await bindings.check(keys);
  return access.map((one) =>
    one.kind === 'none' || allows(caller, one.name) ? one : { kind: 'none' },
  );
}

/** Returns whether each job is hidden from the caller. The store itself hides jobs of other sessions. */
async function hiddenFrom(
  ...[sessionId, jobs, caller, context]: readonly [
    string,
    readonly WireKey[],
    Caller,
    ServerContext,
  ]
): Promise<readonly boolean[]> {
  if (caller.definitions === undefined) {
    await context.owners.check(sessionId, caller);
    return [];
  }
  const keys = jobs.map((key) => toKey(sessionId, key));
  const access = await accessTo({ sessionId, keys, caller }, context);
  return access.map(({ kind }) => kind === 'none');
}

/** Stops the jobs that belong to the session. The others are reported as ended or not found. */
async function stopJobs(
  jobs: NamedJobs,
  context: ServerContext,
  stop: (bound: readonly JobKey[]) => Promise<readonly StopResult[]>,
): Promise<StopResult[]> {
  const { keys } = jobs;
  const access = await accessTo(jobs, context);
  const bound = keys.filter((_, index) => access[index]?.kind === 'job');
  const results = bound.length === 0 ? [] : await stop(bound);
  const byKey = new Map(bound.map((key, index) => [key, results[index]]));
  return keys.map((key, index) => {
    const one = access[index];
    if (one?.kind === 'ended') return { found: true, changed: false, status: one.status };
    return byKey.get(key) ?? { found: false, changed: false, status: null };
  });
}

function noReply(id: string): JobReply {
  return { kind: 'error', error: notFound(id) };
}

function toRequest(
  sessionId: string,
  job: z.output<typeof newJob>,
  { payloadLimitBytes, nowMs }: { readonly payloadLimitBytes: number; readonly nowMs: number },
): JobRequest {
  const { kind, version, input, disposable = false, hasVariables, repeat } = job;
  const settings = kind === 'task' ? {} : readStartSettings(job);
  const trace = toTrace({ traceparent: job.traceparent, tracestate: job.tracestate, at: nowMs });
  const name = checkName(job.name, `${kind === 'task' ? 'Task' : 'Orchestration'} name`);
  return {
    key: { sessionId, instanceId: checkInstanceId(job.id), incarnation: job.incarnation },
    kind,
    name,
    version:
      kind === 'task' || version === undefined ? null : checkName(version, 'Orchestration version'),
    payload: encodePayload(input, `The input of ${JSON.stringify(name)}`, payloadLimitBytes),
    disposable,
    ...(hasVariables === true && { hasVariables }),
    ...(repeat === true && { isRepeat: true }),
    task: kind === 'task' ? toTaskOptions(job) : null,
    ...settings,
    ...(kind === 'orchestration' && toIdentity(job, payloadLimitBytes)),
    ...(trace !== undefined && { trace }),
  };
}

/** The event of a start, and whether it replaces the run that has its id. */
function toIdentity(
  { event, onConflict }: z.output<typeof newJob>,
  limitBytes: number,
): Pick<JobRequest, 'event' | 'onConflict'> {
  const replaces = onConflict === 'terminateExisting';
  readOnConflict({ id: true, event, onConflict });
  return {
    ...(event !== undefined && {
      event: readEventCall(event.name, event.payload, { key: event.key }, limitBytes),
    }),
    ...(replaces && { onConflict: 'terminateExisting' as const }),
  };
}

function toTaskOptions({
  event,
  onConflict,
  id,
  task = {},
}: z.output<typeof newJob>): JobRequest['task'] {
  const { delayMs, expiresInMs, timeoutMs, dedupeKey, dedupeMs, onFail = false, ...rest } = task;
  const key =
    dedupeMs === undefined ? { dedupeKey } : { dedupe: { key: dedupeKey, for: dedupeMs } };
  const times = { delay: delayMs, expiresIn: expiresInMs, timeout: timeoutMs };
  const options = { ...rest, ...key, ...times, ...(onConflict && { id, onConflict }) };
  refuseTaskEvent({ event }, 'submit()');
  const { id: _, ...chosen } = readRunTaskOptions(options, { defaults: { onFail } });
  return chosen;
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
    actor: actorOf(caller, body.actor),
    cleanupMs: body.cleanupMs ?? cleanupMs,
  };
}

/** Returns the reply of a job. If the wait fails, its error is the reply. */
async function replyOf(wait: Promise<JobReply>, signal: AbortSignal): Promise<JobReply> {
  try {
    return await wait;
  } catch (error) {
    // The server is closing, which is not the outcome of the job: the client repeats the request.
    if (signal.aborted || isPerdureError(error, 'CLOSED')) throw error;
    return { kind: 'error', error: error as Error };
  }
}

function toReplyResponse(reply: JobReply, showStacks: boolean) {
  if (reply.kind === 'error') {
    return { kind: 'error' as const, error: toWireError(reply.error, showStacks) };
  }
  const output = readPayload(reply.output);
  return { kind: 'completed' as const, ...(output !== undefined && { output }) };
}

function toChunksResponse({ chunks, over }: ChunkPage) {
  return {
    chunks: chunks.map(({ seq, payload }) => ({ seq, value: readPayload(payload) })),
    over,
  };
}

function lengthOf(reply: JobReply): number {
  return reply.kind === 'completed' ? (reply.output?.length ?? 0) : 0;
}

function lengthOfPage({ chunks }: ChunkPage): number {
  return chunks.reduce((sum, { payload }) => sum + payload.length, 0);
}
