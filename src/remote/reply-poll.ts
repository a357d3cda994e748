import type { JobReply } from '../jobs/backend.ts';
import type { JobKey } from '../providers/contract/sessions.ts';
import type { Answer } from './operations.ts';
import { pollMs, type PollSlots } from './poll-slots.ts';
import { toTypedError } from './remote-error.ts';
import { SessionPolls } from './session-polls.ts';
import type { PollResult } from './shared-poll.ts';
import type { Transport } from './transport.ts';

type WireReply = Answer<'waitForJobs'>['replies'][number]['reply'];

/** Waits for the replies of jobs, those of a session together. */
export class ReplyPoll {
  readonly #transport: Transport;
  readonly #polls: SessionPolls<JobKey, JobReply>;

  constructor(transport: Transport, slots: PollSlots) {
    this.#transport = transport;
    this.#polls = new SessionPolls(slots, (id, keys, signal) => this.#ask(id, keys, signal));
  }

  /** Resolves with the reply of a job; a server that is away is waited for, too. */
  wait(key: JobKey, signal: AbortSignal): Promise<JobReply> {
    return this.#polls.wait({ sessionId: key.sessionId, key: keyOf(key), request: key }, signal);
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
      key: keyOf({ instanceId, incarnation }),
      value: toReply(reply),
    }));
  }
}

function toReply(reply: WireReply): JobReply {
  if (reply.kind === 'error') return { kind: 'error', error: toTypedError(reply.error, 'result') };
  const { output } = reply;
  return { kind: 'completed', output: output === undefined ? null : JSON.stringify(output) };
}

function keyOf({ instanceId, incarnation }: Omit<JobKey, 'sessionId'>): string {
  return `${incarnation} ${instanceId}`;
}
