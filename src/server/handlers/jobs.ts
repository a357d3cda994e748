import type { z } from 'zod';
import type { LocalJobs } from '../../client/local-jobs.ts';
import { readRunTaskOptions } from '../../client/starting/task-request.ts';
import type { ChunkPage, JobReply, JobRequest, JobStop } from '../../jobs/backend.ts';
import { cleanReason } from '../../model/cancel.ts';
import { isPerdureError } from '../../model/failures/errors.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import { notFound } from '../../model/failures/not-found.ts';
import { decodePayload, encodePayload } from '../../model/values/payload.ts';
import type { StopResult } from '../../providers/contract/cancellation.ts';
import type { JobKey } from '../../providers/contract/sessions.ts';
import { allows, forbiddenDefinition, withoutNames } from '../access/allowed-definitions.ts';
import { actorOf, type Backstage, type Handlers } from '../call.ts';
import { BoundedReads } from '../limits/bounded-reads.ts';
import { firstSettled } from '../reading/first-settled.ts';
import { fitting, maxAnswerLength } from '../reading/page-by-bytes.ts';
import type { JobAccess } from '../access/job-bindings.ts';
import type { jobRoutes, newJob } from '../routes/jobs.ts';
import { longestPollMs, type AnswerOf } from '../routes/route.ts';
import type { Caller } from '../access/tokens.ts';
import { toWireError } from '../http/wire-error.ts';
import { showInstance } from './serializers.ts';

type WireKey = { readonly id: string; readonly incarnation: string };

/** Jobs that a caller names through a session. */
interface NamedJobs {
  readonly sessionId: string;
  readonly keys: readonly JobKey[];
  readonly caller: Caller;
}

const cleanupMs = 5 * 60_000;
const noChunks: ChunkPage = { chunks: [], over: true };
const nothingYet: ChunkPage = { chunks: [], over: false };
// As many as a store serves at once; more would only hold more pages in memory.
const readsAtOnce = 8;
const chunksAtOnce = 100;
// Chunks are forgotten as the next ones are read, so few are under way that a broken connection could lose.
const streamedAtOnce = 16;

/** Jobs of sessions. */
export const jobHandlers: Handlers<typeof jobRoutes> = {
  async submitJobs({ params, body, caller }, backstage) {
    const { jobs, owners, bindings, payloadLimitBytes, showStacks } = backstage;
    await owners.check(params.id, caller);
    const results = await Promise.allSettled(
      body.jobs.map(async (job) => {
        if (!allows(caller, job.name)) throw forbiddenDefinition(job.name);
        const request = toRequest(params.id, job, payloadLimitBytes);
        const created = await withoutNames(caller, request.key.instanceId, jobs.create(request));
        if (created) bindings.remember(request.key, request.name);
      }),
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
  async waitForJobs({ params, body, caller, signal }, backstage) {
    const { jobs, showStacks } = backstage;
    const keys = body.jobs.map((key) => toKey(params.id, key));
    const access = await accessTo({ sessionId: params.id, keys, caller }, backstage);
    const { timeoutMs = longestPollMs } = body;
    const replies = await firstSettled(timeoutMs, signal, (inner) =>
      body.jobs.map(async ({ id, incarnation }, index) => {
        if (access[index]?.kind === 'none') return { id, incarnation, reply: noReply(id) };
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
  async abandonJobs({ params, body, caller }, backstage) {
    const stop = toStop(body, caller);
    const keys = body.jobs.map((key) => toKey(params.id, key));
    const results = await stopJobs({ sessionId: params.id, keys, caller }, backstage, (bound) =>
      backstage.jobs.abandonAll(bound, stop),
    );
    return { results };
  },
  async cancelJobs({ params, body, caller }, backstage) {
    const stop = toStop(body, caller);
    const keys = body.jobs.map((key) => toKey(params.id, key));
    const results = await stopJobs({ sessionId: params.id, keys, caller }, backstage, (bound) =>
      Promise.all(bound.map((key) => backstage.jobs.cancel(key, stop))),
    );
    return { results };
  },
  async getJob({ params, query, caller }, backstage) {
    const key = toKey(params.id, { id: params.jobId, incarnation: query.incarnation });
    const [access] = await accessTo({ sessionId: params.id, keys: [key], caller }, backstage);
    if (access?.kind === 'none') throw notFound(params.jobId);
    return showInstance(await backstage.jobs.status(key), backstage.showStacks);
  },
  async readChunks({ params, body, caller, signal }, backstage) {
    const { jobs } = backstage;
    const isHidden = await hiddenFrom(params.id, body.reads, caller, backstage);
    const { reads, timeoutMs = longestPollMs } = body;
    // A request may name 1,000 jobs, or one of them 1,000 times; each has up to 4 MiB of chunks.
    const bounds = new BoundedReads({ maxBytes: maxAnswerLength, atOnce: readsAtOnce });
    const found = await firstSettled(timeoutMs, signal, (inner) =>
      reads.map(async ({ id, incarnation, after = 0, limit = chunksAtOnce }, index) => {
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
      pages: fitting(found, ({ page }) => lengthOfPage(page)).map(({ page, ...key }) => ({
        ...key,
        ...showChunks(page),
      })),
    };
  },
  async streamJob({ params, body, caller, signal }, backstage) {
    const wanted = { id: params.jobId, incarnation: body.incarnation };
    const [isHidden] = await hiddenFrom(params.id, [wanted], caller, backstage);
    if (isHidden === true) throw notFound(params.jobId);
    return streamChunks(backstage.jobs, toKey(params.id, wanted), body.after ?? 0, signal);
  },
};

function toKey(sessionId: string, { id, incarnation }: WireKey): JobKey {
  return { sessionId, instanceId: id, incarnation };
}

async function* streamChunks(
  ...[jobs, key, from, signal]: readonly [LocalJobs, JobKey, number, AbortSignal]
): AsyncGenerator<AnswerOf<(typeof jobRoutes)['streamJob']>, void, undefined> {
  let after = from;
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
}

/** Checks that the session is the caller's, and returns what each key gives access to. */
async function accessTo(
  { sessionId, keys, caller }: NamedJobs,
  { owners, bindings }: Backstage,
): Promise<readonly JobAccess[]> {
  await owners.check(sessionId, caller);
  const access = await bindings.check(keys);
  return access.map((one) =>
    one.kind === 'none' || allows(caller, one.name) ? one : { kind: 'none' },
  );
}

/** Says which jobs the caller must not read. The store itself gives no chunks of another session's jobs. */
async function hiddenFrom(
  ...[sessionId, jobs, caller, backstage]: readonly [string, readonly WireKey[], Caller, Backstage]
): Promise<readonly boolean[]> {
  if (caller.definitions === undefined) {
    await backstage.owners.check(sessionId, caller);
    return [];
  }
  const keys = jobs.map((key) => toKey(sessionId, key));
  const access = await accessTo({ sessionId, keys, caller }, backstage);
  return access.map(({ kind }) => kind === 'none');
}

/** Stops those that are jobs of the session; the others are not found, or have ended. */
async function stopJobs(
  jobs: NamedJobs,
  backstage: Backstage,
  stop: (bound: readonly JobKey[]) => Promise<readonly StopResult[]>,
): Promise<StopResult[]> {
  const { keys } = jobs;
  const access = await accessTo(jobs, backstage);
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
    task: kind === 'task' ? toTaskOptions(job.task ?? {}) : null,
  };
}

function toTaskOptions({
  delayMs,
  expiresInMs,
  onFail = false,
  ...rest
}: NonNullable<z.output<typeof newJob>['task']>): JobRequest['task'] {
  const options = { ...rest, delay: delayMs, expiresIn: expiresInMs };
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

function showChunks({ chunks, over }: ChunkPage) {
  return {
    chunks: chunks.map(({ seq, payload }) => ({ seq, value: decodePayload(payload) })),
    over,
  };
}

function lengthOf(reply: JobReply): number {
  return reply.kind === 'completed' ? (reply.output?.length ?? 0) : 0;
}

function lengthOfPage({ chunks }: ChunkPage): number {
  return chunks.reduce((sum, { payload }) => sum + payload.length, 0);
}
