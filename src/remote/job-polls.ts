import type { JobReply, ChunkPageRequest, ChunkPage } from '../jobs/backend.ts';
import type { JobKey } from '../providers/contract/sessions.ts';
import type { ResponseBody } from './operations.ts';
import { toTypedError } from './remote-error.ts';
import { pollMs, SessionPolls, type PollSlots, type PollResult } from './shared-poll.ts';
import type { Transport, CallOptions } from './transport.ts';

type WireReply = ResponseBody<'waitForJobs'>['replies'][number]['reply'];

/** Waits for the replies of jobs, with one poll per session. */
export class ReplyPoll {
  readonly #transport: Transport;
  readonly #polls: SessionPolls<JobKey, JobReply>;

  constructor(transport: Transport, slots: PollSlots) {
    this.#transport = transport;
    this.#polls = new SessionPolls(slots, (id, keys, signal) => this.#ask(id, keys, signal));
  }

  /** Resolves with the reply of a job. Retries while the server is unreachable. */
  wait(key: JobKey, signal: AbortSignal): Promise<JobReply> {
    return this.#polls.wait({ sessionId: key.sessionId, key: replyKey(key), request: key }, signal);
  }

  async #ask(
    id: string,
    keys: readonly JobKey[],
    signal: AbortSignal,
  ): Promise<readonly PollResult<JobReply>[]> {
    const jobs = keys.map(({ instanceId, incarnation }) => ({ id: instanceId, incarnation }));
    const { replies } = await this.#transport.call(
      'waitForJobs',
      { params: { id }, body: { jobs, timeoutMs: pollMs } },
      { repeatable: true, retryForMs: Number.POSITIVE_INFINITY, waitMs: pollMs, signal },
    );
    return replies.map(({ id: instanceId, incarnation, reply }) => ({
      key: replyKey({ instanceId, incarnation }),
      value: toReply(reply),
    }));
  }
}

function toReply(reply: WireReply): JobReply {
  if (reply.kind === 'error') return { kind: 'error', error: toTypedError(reply.error, 'result') };
  const { output } = reply;
  return { kind: 'completed', output: output === undefined ? null : JSON.stringify(output) };
}

function replyKey({ instanceId, incarnation }: Omit<JobKey, 'sessionId'>): string {
  return `${incarnation} ${instanceId}`;
}

interface ChunkRead {
  readonly job: JobKey;
  readonly page: ChunkPageRequest;
}

/** Reads the chunks of jobs, with one poll per session. */
export class ChunkPoll {
  readonly #transport: Transport;
  readonly #polls: SessionPolls<ChunkRead, ChunkPage>;

  constructor(transport: Transport, slots: PollSlots) {
    this.#transport = transport;
    const retryForMs = Number.POSITIVE_INFINITY;
    this.#polls = new SessionPolls(slots, (id, reads, signal) =>
      this.#ask(id, reads, { retryForMs, waitMs: pollMs, signal }),
    );
  }

  /** Reads the next chunks of a job. `page.after` makes a repeated read return the same chunks. */
  async read(job: JobKey, page: ChunkPageRequest, signal: AbortSignal): Promise<ChunkPage> {
    const { sessionId } = job;
    const read = { job, page };
    if (page.wait) {
      return this.#polls.wait({ sessionId, key: chunkKey(read), request: read }, signal);
    }
    const [result] = await this.#ask(sessionId, [read], { retryForMs: 0, waitMs: 0, signal });
    return result !== undefined && 'value' in result ? result.value : { chunks: [], over: false };
  }

  async #ask(
    id: string,
    reads: readonly ChunkRead[],
    options: CallOptions,
  ): Promise<readonly PollResult<ChunkPage>[]> {
    const { pages } = await this.#transport.call(
      'readChunks',
      { params: { id }, body: { reads: reads.map(toWireRead), timeoutMs: options.waitMs } },
      { ...options, repeatable: true },
    );
    return pages.flatMap(({ id: instanceId, incarnation, chunks, over }) => {
      const isAsked = ({ job }: ChunkRead) =>
        job.instanceId === instanceId && job.incarnation === incarnation;
      const value = { chunks: chunks.map(toChunk), over };
      return reads.filter(isAsked).map((read) => ({ key: chunkKey(read), value }));
    });
  }
}

// The key includes `after`: a reader that starts again must not get the page of an earlier read.
function chunkKey({ job, page }: ChunkRead): string {
  return `${page.after} ${job.incarnation} ${job.instanceId}`;
}

function toWireRead({ job, page }: ChunkRead) {
  const { instanceId: id, incarnation } = job;
  return { id, incarnation, after: page.after, limit: page.limit };
}

function toChunk({ seq, value }: { readonly seq: number; readonly value?: unknown }) {
  return { seq, payload: JSON.stringify(value ?? null) };
}
