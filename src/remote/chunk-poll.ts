import type { ChunkPageRequest, JobChunks } from '../jobs/backend.ts';
import type { JobKey } from '../providers/contract/sessions.ts';
import { pollMs, type PollSlots } from './poll-slots.ts';
import { SessionPolls } from './session-polls.ts';
import type { PollResult } from './shared-poll.ts';
import type { CallOptions, Transport } from './transport.ts';

interface ChunkRead {
  readonly job: JobKey;
  readonly page: ChunkPageRequest;
}

/** Reads what jobs emit, the streams of a session together. */
export class ChunkPoll {
  readonly #transport: Transport;
  readonly #polls: SessionPolls<ChunkRead, JobChunks>;

  constructor(transport: Transport, slots: PollSlots) {
    this.#transport = transport;
    const retryForMs = Number.POSITIVE_INFINITY;
    this.#polls = new SessionPolls(slots, (id, reads, signal) =>
      this.#ask(id, reads, { retryForMs, waitMs: pollMs, signal }),
    );
  }

  /** Reads the next chunks of a job. What a lost answer carried is asked for again by its number. */
  async read(job: JobKey, page: ChunkPageRequest, signal: AbortSignal): Promise<JobChunks> {
    const { sessionId } = job;
    const read = { job, page };
    if (page.wait) {
      return this.#polls.wait({ sessionId, key: keyOf(read), request: read }, signal);
    }
    const [result] = await this.#ask(sessionId, [read], { retryForMs: 0, waitMs: 0, signal });
    return result !== undefined && 'value' in result ? result.value : { chunks: [], over: false };
  }

  async #ask(
    id: string,
    reads: readonly ChunkRead[],
    options: CallOptions,
  ): Promise<readonly PollResult<JobChunks>[]> {
    const { pages } = await this.#transport.call(
      'readChunks',
      { params: { id }, body: { reads: reads.map(toWireRead), timeoutMs: options.waitMs } },
      { ...options, repeatable: true },
    );
    return pages.flatMap(({ id: instanceId, incarnation, chunks, over }) => {
      const isAsked = ({ job }: ChunkRead) =>
        job.instanceId === instanceId && job.incarnation === incarnation;
      const value = { chunks: chunks.map(toChunk), over };
      return reads.filter(isAsked).map((read) => ({ key: keyOf(read), value }));
    });
  }
}

// A job has one reader, but one that began anew must not be given what an older read had asked for.
function keyOf({ job, page }: ChunkRead): string {
  return `${page.after} ${job.incarnation} ${job.instanceId}`;
}

function toWireRead({ job, page }: ChunkRead) {
  const { instanceId: id, incarnation } = job;
  return { id, incarnation, after: page.after, limit: page.limit };
}

function toChunk({ seq, value }: { readonly seq: number; readonly value?: unknown }) {
  return { seq, payload: JSON.stringify(value ?? null) };
}
