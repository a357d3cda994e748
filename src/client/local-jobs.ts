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
import { sessionClosed, sessionDowngrade, sessionNotFound } from '../jobs/job-errors.ts';
import { pause } from '../jobs/retrying.ts';
import {
  checkVariables,
  type JobPage,
  type SessionInfo,
  type SessionPage,
  type ShutdownMode,
  type JobInfo,
} from '../jobs/session-info.ts';
import { noteEntry } from '../management/management-options.ts';
import type { AuditNote } from '../model/audit-options.ts';
import type { Clock } from '../model/clock.ts';
import { PerdureError, notFound } from '../model/failures/errors.ts';
import { defaultMaxPendingEvents } from '../model/admission-options.ts';
import { encodeTaskOptions } from '../model/work-item-options.ts';
import { withSession, type Headers } from '../model/values/headers.ts';
import { generatedInputHash, inputHash } from '../model/values/input-hash.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { NewTask } from '../providers/contract/tasks.ts';
import type { TaskCall } from './client-backend.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { Withheld } from '../providers/contract/page-bytes.ts';
import type { Hint, Provider } from '../providers/contract/provider.ts';
import type {
  JobKey,
  SubmitJobResult,
  NewJob,
  JobRecord,
  SessionRecord,
} from '../providers/contract/sessions.ts';
import { inspectInstance } from './reading/inspect-instance.ts';
import { toInstanceInfo, type InstanceInfo } from './reading/instance-info.ts';
import { maxPageBytes } from './reading/instance-list.ts';
import { toNewInstance, withIdentity } from './starting/new-instance.ts';
import { toTaskTimes } from './starting/task-request.ts';
import type { CompletionWaiter } from './waiting/completion-waiter.ts';
import { HintWaiter } from './waiting/hint-waiter.ts';
import { takeResult } from './waiting/instance-result.ts';

export interface LocalJobsParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly completions: CompletionWaiter;
  /** Polling interval of waits without a hint. Default 1 s. */
  readonly recheckMs?: number | undefined;
  /** Wakes the session reapers of this process. */
  readonly onSessionChanged?: (() => void) | undefined;
}

// Jobs abandoned per transaction.
const settleLimit = 500;
// A busy process sends a hint per ended run: limits how often a session is settled.
const settlePauseMs = 10;

/** Jobs and sessions in a store that is open in this process. */
export class LocalJobs implements JobBackend {
  readonly clock: Clock;
  readonly #provider: Provider;
  readonly #completions: CompletionWaiter;
  readonly #hints: HintWaiter;
  readonly #onSessionChanged: () => void;

  constructor(params: LocalJobsParams) {
    this.clock = params.clock;
    this.#provider = params.provider;
    this.#completions = params.completions;
    this.#hints = new HintWaiter(params);
    this.#onSessionChanged = params.onSessionChanged ?? (() => undefined);
  }

  async openSession({ idleTimeoutMs, ...request }: SessionRequest): Promise<SessionInfo> {
    const session = { ...request, leaseMs: idleTimeoutMs };
    const record = await this.#provider.openSession(session);
    this.#onSessionChanged();
    return toSessionInfo(record);
  }

  async keepAlive(sessionId: string): Promise<SessionInfo | undefined> {
    const [record] = await this.#provider.renewSessions([sessionId]);
    return record && toSessionInfo(record);
  }

  async shutdown(request: {
    readonly sessionId: string;
    readonly mode: ShutdownMode;
    readonly leaving: boolean;
    readonly note?: AuditNote;
  }): Promise<SessionInfo> {
    const { sessionId, mode, leaving, note } = request;
    const end = leaving ? 'goodbye' : 'shutdown';
    const shape = { session: sessionId, mode };
    const audit = note === undefined ? {} : { audit: noteEntry('sessionShutdown', note, shape) };
    const wanted = { sessionId, mode, end, ...audit } as const;
    const { kind, session } = await this.#provider.shutdownSession(wanted);
    if (session === undefined) throw sessionNotFound(sessionId);
    if (kind === 'downgrade') throw sessionDowngrade(sessionId);
    const settled = await this.#settle(sessionId, session.openJobs);
    this.#onSessionChanged();
    return toSessionInfo(settled ?? session);
  }

  /** Signals all jobs of a session, and ends a session without jobs. */
  async #settle(sessionId: string, openJobs: number) {
    let settled = await this.#provider.settleSession(sessionId, settleLimit);
    for (let signaled = settleLimit; signaled < openJobs; signaled += settleLimit) {
      settled = await this.#provider.settleSession(sessionId, settleLimit);
    }
    return settled;
  }

  async waitForEnd(sessionId: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const hint = this.#hints.next(isEnd, signal);
      try {
        const session = await this.#provider.settleSession(sessionId, settleLimit);
        if (session === undefined || session.state === 'ended') return;
        signal.throwIfAborted();
        await hint.arrived;
      } finally {
        hint.end();
      }
      signal.throwIfAborted();
      await pause({ signal }, settlePauseMs);
    }
  }

  async getSession(sessionId: string): Promise<SessionInfo | undefined> {
    const [record] = await this.#provider.getSessions([sessionId]);
    return record && toSessionInfo(record);
  }

  async listSessions({ limit, after, state, label }: SessionQuery): Promise<SessionPage> {
    const records = await this.#provider.listSessions({
      limit: limit + 1,
      maxBytes: maxPageBytes,
      ...readAfter(after),
      ...(state !== undefined && { state }),
      ...(label !== undefined && { label }),
    });
    return toPage(records, limit, { toItem: toSessionInfo, keyOf: ({ sessionKey }) => sessionKey });
  }

  async listJobs(query: {
    readonly sessionId: string;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<JobPage> {
    const { sessionId, limit, after } = query;
    const params = { sessionId, limit: limit + 1, ...readAfter(after) };
    const records = await this.#provider.listJobs(params);
    return toPage(records, limit, { toItem: toJobInfo, keyOf: ({ jobKey }) => jobKey });
  }

  async setVariables(
    sessionId: string,
    set: Readonly<Record<string, string | null>>,
  ): Promise<SessionInfo> {
    const [before] = await this.#provider.getSessions([sessionId]);
    if (before !== undefined) checkVariables(before.variables, set);
    const record = await this.#provider.setSessionVariables({ sessionId, set });
    if (record === undefined) throw sessionNotFound(sessionId);
    if (record.state === 'ended') throw sessionClosed(sessionId, record.state);
    return toSessionInfo(record);
  }

  async submit(request: JobRequest): Promise<void> {
    await this.create(request);
  }

  /** Submits a job and returns whether this call created its run. */
  async create(request: JobRequest): Promise<boolean> {
    const job = toNewJob(request, this.clock.now());
    const result = await this.#completions.recentStarts.during(request.key, async () => {
      const [created] = await this.#provider.submitJobs([job]);
      return created;
    });
    throwIfRejected(request, result);
    return result?.kind === 'created';
  }

  async wait(key: JobKey, signal: AbortSignal): Promise<JobReply> {
    const ending = await this.#completions.waitForIncarnation(key, signal);
    if (ending.status === 'completed') return { kind: 'completed', output: ending.output };
    try {
      takeResult(ending);
    } catch (error) {
      return { kind: 'error', error: error as Error };
    }
    throw new Error('A run that did not complete has an output.');
  }

  async take(key: JobKey): Promise<void> {
    await this.#provider.takeJobs([key]);
  }

  async abandon(key: JobKey, stop: JobStop): Promise<StopResult> {
    const [result] = await this.#provider.abandonJobs([{ ...key, ...stop }]);
    return theOnly(result);
  }

  /** Abandons several jobs; resolves with their results, in order. */
  async abandonAll(keys: readonly JobKey[], stop: JobStop): Promise<readonly StopResult[]> {
    try {
      return await this.#provider.abandonJobs(keys.map((key) => ({ ...key, ...stop })));
    } catch {
      // One bad job must not prevent the others from being stopped.
      return Promise.all(keys.map((key) => this.abandon(key, stop)));
    }
  }

  async cancel({ instanceId, incarnation }: JobKey, stop: JobStop): Promise<StopResult> {
    const request = { instanceId, incarnation, ...stop };
    const [result] = await this.#provider.requestCancel([request]);
    return theOnly(result);
  }

  async status({ instanceId, incarnation }: JobKey): Promise<InstanceInfo> {
    const [record] = await this.#provider.getInstances([instanceId]);
    if (record?.incarnation !== incarnation) throw notFound(instanceId);
    return (await inspectInstance(this.#provider, instanceId)) ?? toInstanceInfo(record);
  }

  /** `bounded` runs each read of the store, or returns an empty page instead. */
  async read(
    { sessionId, instanceId, incarnation }: JobKey,
    { after, limit, wait }: ChunkPageRequest,
    signal: AbortSignal,
    bounded: (read: () => Promise<ChunkPage>) => Promise<ChunkPage> = (read) => read(),
  ): Promise<ChunkPage> {
    const concerns = (hint: Hint): boolean => mentions(hint, instanceId);
    for (;;) {
      signal.throwIfAborted();
      const hint = this.#hints.next(concerns, signal);
      try {
        const request = { sessionId, instanceId, incarnation, after, limit };
        const page = await bounded(() => this.#provider.readChunks(request));
        if (page.chunks.length > 0 || page.over || !wait) return page;
        await hint.arrived;
      } finally {
        hint.end();
      }
    }
  }
}

function isEnd(hint: Hint): boolean {
  return hint.kind === 'finished';
}

function mentions(hint: Hint, instanceId: string): boolean {
  const isRelevant = hint.kind === 'emitted' || hint.kind === 'finished';
  return isRelevant && hint.instanceIds.includes(instanceId);
}

function throwIfRejected({ key, name }: JobRequest, result: SubmitJobResult | undefined): void {
  const { sessionId, instanceId } = key;
  switch (result?.kind) {
    case 'created':
    case 'exists':
      return;
    case 'conflict':
      throw alreadyTaken(
        `The id ${JSON.stringify(instanceId)} belongs to a run of ${JSON.stringify(result.name)}`,
      );
    case 'active':
      throw alreadyTaken(
        `Run ${JSON.stringify(result.instanceId)} of ${JSON.stringify(name)} is active and has the dedupe key`,
      );
    case 'sessionClosed':
      throw result.state === 'missing'
        ? sessionNotFound(sessionId)
        : sessionClosed(sessionId, result.state);
    case 'refused':
      throw result.error;
    case undefined:
      throw new Error('submitJobs returned no result.');
  }
}

function alreadyTaken(what: string): PerdureError {
  return new PerdureError(
    'INSTANCE_ALREADY_EXISTS',
    `${what}, and a job cannot attach to an existing run. Choose another id or key, or get a handle of that run with handle().`,
  );
}

function theOnly(result: StopResult | undefined): StopResult {
  if (result === undefined) throw new Error('The store returned no result.');
  return result;
}

function toNewJob(request: JobRequest, nowMs: number): NewJob {
  const { key, name, payload, disposable, task, trace, hasVariables, isRepeat } = request;
  const { sessionId, instanceId, incarnation } = key;
  const job = { sessionId, disposable };
  const headersOf = (headers: Headers | undefined) =>
    hasVariables === true && { headers: withSession(headers, sessionId) };
  if (task !== null) {
    const run = {
      ...task,
      ...headersOf(task.headers),
      id: instanceId,
      incarnation,
      isRepeat,
      name,
    };
    return { ...job, kind: 'task', task: toNewTask({ ...run, payload, trace }, nowMs) };
  }
  const start = { ...request, ...headersOf(request.headers) };
  const created = toNewInstance(start, { instanceId, incarnation, isRepeat });
  const { event, onConflict } = request;
  const instance = withIdentity(created, { event, onConflict, trace }, defaultMaxPendingEvents);
  return { ...job, kind: 'orchestration', instance };
}

/** Converts a checked task run into a row; throws `INVALID_INPUT` for an expiry that leaves no time to start. */
export function toNewTask(
  run: Omit<TaskCall, 'hasGeneratedId'> & {
    readonly incarnation?: string;
    readonly hasGeneratedId?: boolean;
  },
  nowMs: number,
): NewTask {
  const { id, name, payload, priority, replaceKey, startKey } = run;
  const { incarnation = replaceKey ?? startKey ?? randomToken() } = run;
  const options = encodeTaskOptions(run.headers, run.trace);
  // Assigned one by one: spreads of optional fields take longer.
  const task: { -readonly [Field in keyof NewTask]: NewTask[Field] } = {
    instanceId: id,
    incarnation,
    name,
    inputHash: run.hasGeneratedId === true ? generatedInputHash(payload) : inputHash(payload),
    payload,
    options,
    priority,
  };
  if (hasTimes(run)) Object.assign(task, toTaskTimes(run, nowMs));
  if (run.timeoutMs !== undefined) task.timeoutMs = run.timeoutMs;
  if (run.dedupeKey !== undefined) task.dedupeKey = run.dedupeKey;
  if (run.dedupeMs !== undefined) task.dedupeMs = run.dedupeMs;
  if (run.debounce !== undefined) task.debounce = run.debounce;
  if (run.onFail) task.onFail = { options };
  if (run.onConflict !== undefined) task.onConflict = run.onConflict;
  if (run.tags !== undefined) task.tags = run.tags;
  if (run.isRepeat === true) task.isRepeat = true;
  if (run.lane !== undefined) task.lane = run.lane;
  return task;
}

function hasTimes({ delayMs, runAt, expiresInMs, expiresAt }: Omit<TaskCall, 'hasGeneratedId'>) {
  const isDelayed = delayMs !== undefined || runAt !== undefined;
  return isDelayed || expiresInMs !== undefined || expiresAt !== undefined;
}

function toSessionInfo(record: SessionRecord): SessionInfo {
  const { label, owner, end, endedAt } = record;
  return {
    id: record.sessionId,
    ...(label !== null && { label }),
    ...(owner !== null && { owner }),
    state: record.state,
    ...(end !== null && { end }),
    idleTimeoutMs: record.leaseMs,
    createdAt: record.createdAt,
    expiresAt: record.expiresAt,
    ...(endedAt !== null && { endedAt }),
    variables: record.variables,
    openJobs: record.openJobs,
  };
}

function toJobInfo(record: JobRecord): JobInfo {
  const { instanceId, kind, name, status, createdAt, abandonedAt } = record;
  return {
    id: instanceId,
    kind,
    name,
    status,
    createdAt,
    ...(abandonedAt !== null && { abandonedAt }),
  };
}

/** Converts `limit + 1` rows into a page, up to the first withheld one. */
function toPage<Row extends object, Item>(
  rows: readonly Row[],
  limit: number,
  { toItem, keyOf }: { readonly toItem: (row: Row) => Item; readonly keyOf: (row: Row) => number },
): { readonly items: readonly Item[]; readonly nextAfter?: string } {
  const shown = rows.slice(0, limit).filter((row) => (row as Withheld).withheld !== true);
  const items = shown.map(toItem);
  const last = shown.at(-1);
  if (last === undefined || rows.length === shown.length) return { items };
  return { items, nextAfter: String(keyOf(last)) };
}

function readAfter(after: string | undefined): { readonly after?: number } {
  if (after === undefined) return {};
  if (/^\d{1,15}$/.test(after)) return { after: Number(after) };
  throw new PerdureError(
    'INVALID_INPUT',
    'Invalid `after`: must be the `nextAfter` of the previous page.',
  );
}
