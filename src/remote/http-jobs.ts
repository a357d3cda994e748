import type { InstanceInfo } from '../client/reading/instance-info.ts';
import { toWireLane, toWireSettings } from '../client/starting/wire-settings.ts';
import type {
  ChunkPageRequest,
  JobBackend,
  ChunkPage,
  JobReply,
  JobRequest,
  JobStop,
  SessionQuery,
  SessionRequest,
} from '../jobs/backend.ts';
import type { JobPage, SessionInfo, SessionPage, ShutdownMode } from '../jobs/session-info.ts';
import type { AuditNote } from '../model/audit-options.ts';
import { systemClock } from '../model/clock.ts';
import { isPerdureError } from '../model/failures/errors.ts';
import { byteLength, decodePayload } from '../model/values/payload.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { JobKey } from '../providers/contract/sessions.ts';
import { CallBatches } from './call-batches.ts';
import { ChunkPoll, ReplyPoll } from './job-polls.ts';
import { toWireNote } from './http-management.ts';
import type { Request } from './operations.ts';
import { pollMs, type PollSlots } from './shared-poll.ts';
import { assertEach } from './read-response.ts';
import { toTypedError } from './remote-error.ts';
import type { CallOptions, Transport } from './transport.ts';
import { toWireEvent } from './wire-event.ts';

// By default a server accepts urgent bodies of 256 KiB, including the reason.
const urgent = {
  weigh: (key: JobKey): number => byteLength(JSON.stringify(toWireKey(key))) + 1,
  maxWeight: 180_000,
};
// A short timeout with retries, because a dead connection may not report an error.
const urgentMs = 5_000;
const shortestAttemptMs = 500;

// Jobs and sessions retry their calls themselves, with the same ids.
const once: CallOptions = { repeatable: true, retryForMs: 0 };
const urgently: CallOptions = { ...once, timeoutMs: urgentMs };

/** Jobs and sessions over HTTP. Batches concurrent calls for jobs of one session. */
export class HttpJobs implements JobBackend {
  readonly clock = systemClock;
  readonly #transport: Transport;
  readonly #slots: PollSlots;
  readonly #replies: ReplyPoll;
  readonly #chunks: ChunkPoll;
  readonly #leases = new Map<string, number>();
  readonly #submissions: CallBatches<JobRequest, Error | undefined>;
  readonly #taken: CallBatches<JobKey, undefined>;
  readonly #abandoned: CallBatches<JobKey, StopResult>;
  readonly #canceled: CallBatches<JobKey, StopResult>;

  constructor(transport: Transport, slots: PollSlots) {
    this.#transport = transport;
    this.#slots = slots;
    this.#replies = new ReplyPoll(transport, slots);
    this.#chunks = new ChunkPoll(transport, slots);
    this.#submissions = new CallBatches({
      send: (id, requests) => this.#submitAll(id, requests),
      weigh: ({ payload }) => payload?.length ?? 0,
      maxAtOnce: 4,
    });
    this.#taken = new CallBatches<JobKey, undefined>({
      send: async (id, keys) => {
        await transport.call(
          'takeJobs',
          { params: { id }, body: { jobs: keys.map(toWireKey) } },
          once,
        );
        return [];
      },
      maxAtOnce: 1,
    });
    this.#abandoned = new CallBatches({
      send: (group, keys) => this.#stopAll('abandonJobs', group, keys),
      ...urgent,
    });
    this.#canceled = new CallBatches({
      send: (group, keys) => this.#stopAll('cancelJobs', group, keys),
      ...urgent,
    });
  }

  async openSession(request: SessionRequest): Promise<SessionInfo> {
    const { sessionId, label, idleTimeoutMs, variables } = request;
    this.#leases.set(sessionId, idleTimeoutMs);
    const body = { id: sessionId, ...(label !== null && { label }), idleTimeoutMs, variables };
    return this.#transport.call('openSession', { body }, once);
  }

  async keepAlive(sessionId: string): Promise<SessionInfo | undefined> {
    // Several attempts must fit into a lease.
    const leaseMs = this.#leases.get(sessionId) ?? urgentMs * 4;
    const timeoutMs = Math.min(urgentMs, Math.max(shortestAttemptMs, leaseMs / 4));
    const request = { params: { id: sessionId }, body: {} };
    const call = this.#transport.call('keepAlive', request, { ...once, timeoutMs });
    const session = await orUndefined(call);
    if (session === undefined || session.state === 'ended') this.#leases.delete(sessionId);
    return session;
  }

  async shutdown(request: {
    readonly sessionId: string;
    readonly mode: ShutdownMode;
    readonly leaving: boolean;
    readonly note?: AuditNote;
  }): Promise<SessionInfo> {
    const { sessionId, mode, leaving, note } = request;
    if (leaving) this.#leases.delete(sessionId);
    const asked = {
      params: { id: sessionId },
      body: { mode, leaving, ...(note !== undefined && toWireNote(note)) },
    };
    return this.#transport.call('shutdownSession', asked, urgently);
  }

  async waitForEnd(sessionId: string, signal: AbortSignal): Promise<void> {
    const request = { params: { id: sessionId }, query: { timeoutMs: pollMs } };
    const options = { ...once, waitMs: pollMs, signal };
    const poll = () => this.#transport.call('waitForSession', request, options);
    for (;;) {
      const answer = await orUndefined(this.#slots.hold(poll));
      if (answer !== undefined && !answer.ended) continue;
      this.#leases.delete(sessionId);
      return;
    }
  }

  async getSession(sessionId: string): Promise<SessionInfo | undefined> {
    return orUndefined(this.#transport.call('getSession', { params: { id: sessionId } }, once));
  }

  async listSessions({ state, ...query }: SessionQuery): Promise<SessionPage> {
    const states = state === undefined ? {} : { state: [...state] };
    return this.#transport.call('listSessions', { query: { ...query, ...states } }, once);
  }

  async listJobs({ sessionId, ...query }: Parameters<JobBackend['listJobs']>[0]): Promise<JobPage> {
    return this.#transport.call('listJobs', { params: { id: sessionId }, query }, once);
  }

  async setVariables(
    sessionId: string,
    set: Readonly<Record<string, string | null>>,
  ): Promise<SessionInfo> {
    const request = { params: { id: sessionId }, body: { set } };
    return this.#transport.call('setSessionVariables', request, once);
  }

  async submit(request: JobRequest): Promise<void> {
    const error = await this.#submissions.add(request.key.sessionId, request);
    if (error !== undefined) throw error;
  }

  wait(key: JobKey, signal: AbortSignal): Promise<JobReply> {
    return this.#replies.wait(key, signal);
  }

  async take(key: JobKey): Promise<void> {
    await this.#taken.add(key.sessionId, key);
  }

  abandon(key: JobKey, stop: JobStop): Promise<StopResult> {
    return this.#abandoned.add(toGroup(key, stop), key);
  }

  cancel(key: JobKey, stop: JobStop): Promise<StopResult> {
    return this.#canceled.add(toGroup(key, stop), key);
  }

  async status({ sessionId, instanceId, incarnation }: JobKey): Promise<InstanceInfo> {
    const params = { id: sessionId, jobId: instanceId };
    return this.#transport.call('getJob', { params, query: { incarnation } }, once);
  }

  read(key: JobKey, page: ChunkPageRequest, signal: AbortSignal): Promise<ChunkPage> {
    return this.#chunks.read(key, page, signal);
  }

  async #submitAll(
    id: string,
    requests: readonly JobRequest[],
  ): Promise<readonly (Error | undefined)[]> {
    const body = { jobs: requests.map(toWireJob) };
    const { results } = await this.#transport.call('submitJobs', { params: { id }, body }, once);
    assertEach('submitJobs', results, requests);
    return results.map(({ error }) => error && toTypedError(error, 'submit'));
  }

  async #stopAll(
    operation: 'abandonJobs' | 'cancelJobs',
    group: string,
    keys: readonly JobKey[],
  ): Promise<readonly StopResult[]> {
    const [id, { actor, ...stop }] = JSON.parse(group) as [string, JobStop];
    const body = { jobs: keys.map(toWireKey), ...stop, ...(actor !== null && { actor }) };
    const { results } = await this.#transport.call(operation, { params: { id }, body }, urgently);
    assertEach(operation, results, keys);
    return results;
  }
}

/** Jobs of one session that stop for the same reason share a request. */
function toGroup({ sessionId }: JobKey, stop: JobStop): string {
  return JSON.stringify([sessionId, stop]);
}

function toWireKey({ instanceId, incarnation }: JobKey): { id: string; incarnation: string } {
  return { id: instanceId, incarnation };
}

async function orUndefined<Value>(answer: Promise<Value>): Promise<Value | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isPerdureError(error, 'SESSION_NOT_FOUND')) return undefined;
    throw error;
  }
}

type NewJob = Request<'submitJobs'>['body']['jobs'][number];

function toWireJob(request: JobRequest): NewJob {
  const { key, kind, name, version, payload, disposable, task, trace, hasVariables } = request;
  const { event, isRepeat } = request;
  const replaces = (task ?? request).onConflict === 'terminateExisting';
  return {
    id: key.instanceId,
    incarnation: key.incarnation,
    kind,
    name,
    ...(version !== null && { version }),
    ...(payload !== null && { input: decodePayload(payload) }),
    disposable,
    ...(hasVariables === true && { hasVariables }),
    ...(isRepeat === true && { repeat: true }),
    ...(task !== null && { task: toTask(task) }),
    ...toWireSettings(request),
    ...(event !== undefined && { event: toWireEvent(event) }),
    ...(replaces && { onConflict: 'terminateExisting' as const }),
    ...(trace !== undefined && {
      traceparent: trace.traceparent,
      ...(trace.tracestate !== undefined && { tracestate: trace.tracestate }),
    }),
  };
}

function toTask({
  headers,
  tags,
  debounce: _debounce,
  onConflict: _onConflict,
  replaceKey: _replaceKey,
  lane,
  ...task
}: NonNullable<JobRequest['task']>): NonNullable<NewJob['task']> {
  return {
    ...task,
    ...(headers !== undefined && { headers: { ...headers } }),
    ...(tags !== undefined && { tags: { ...tags } }),
    ...(lane !== undefined && toWireLane(lane)),
  };
}
