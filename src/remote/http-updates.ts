import { clientClosed } from '../client/waiting/instance-errors.ts';
import { updateTimedOut } from '../client/updating/update-errors.ts';
import type { AnswerCall, UpdateBackend, UpdateCall } from '../client/updating/update-request.ts';
import { systemClock } from '../model/clock.ts';
import { takeDecoded } from '../model/encoding/encoded-value.ts';
import { decodePayload } from '../model/values/payload.ts';
import { toTypedError } from './remote-error.ts';
import { pollMs, SharedPoll, type PollResult, type PollSlots } from './shared-poll.ts';
import type { Transport } from './transport.ts';

interface UpdateRef {
  readonly id: string;
  readonly key: string;
  /** For errors. */
  readonly name?: string | undefined;
}

/** Updates and awakeables through a server. Waits for replies share long polls. */
export class HttpUpdates implements UpdateBackend {
  readonly #transport: Transport;
  readonly #poll: SharedPoll<UpdateRef, unknown>;

  constructor(transport: Transport, slots: PollSlots) {
    this.#transport = transport;
    this.#poll = new SharedPoll(slots, (updates, signal) => this.#ask(updates, signal));
  }

  async update(call: UpdateCall, timeoutMs: number | undefined): Promise<unknown> {
    const { id, name, payload, key, trace } = call;
    const input = payload === null ? {} : { input: decodePayload(payload) };
    const timeout = new AbortController();
    const cancelAlarm =
      timeoutMs === undefined
        ? undefined
        : systemClock.setTimer(timeoutMs, () => timeout.abort(updateTimedOut(call, timeoutMs)));
    try {
      const reply = await this.#transport.call(
        'updateInstance',
        { params: { id }, body: { name, ...input, key, timeoutMs: 0 } },
        { repeatable: true, trace, signal: timeout.signal },
      );
      if (reply.status === 'completed') return takeDecoded(reply.output);
      const place = placeOf(call);
      return takeDecoded(await this.#poll.wait(place, { id, key, name }, timeout.signal));
    } finally {
      cancelAlarm?.();
    }
  }

  async answerAwakeable({ token, key, answer }: AnswerCall): Promise<void> {
    const options = { repeatable: true };
    const params = { token };
    if (answer.kind === 'reject') {
      const { name, message, code, details } = answer.failure;
      const body = {
        reason: message,
        key,
        // Servers before this option reject unknown fields, so send it only if it differs.
        ...(name !== 'Error' && { name }),
        ...(code !== undefined && { code }),
        ...(details !== undefined && { details }),
      };
      await this.#transport.call('rejectAwakeable', { params, body }, options);
      return;
    }
    const { payload } = answer;
    const body = { key, ...(payload !== null && { value: decodePayload(payload) }) };
    await this.#transport.call('resolveAwakeable', { params, body }, options);
  }

  close(): void {
    this.#poll.close(clientClosed());
  }

  async #ask(
    updates: readonly UpdateRef[],
    signal: AbortSignal,
  ): Promise<readonly PollResult<unknown>[]> {
    const { results } = await this.#transport.call(
      'waitForUpdates',
      { body: { updates: [...updates], timeoutMs: pollMs } },
      { repeatable: true, waitMs: pollMs, retryForMs: Number.POSITIVE_INFINITY, signal },
    );
    return results.map((result) =>
      'error' in result
        ? { key: placeOf(result), error: toTypedError(result.error, 'update') }
        : { key: placeOf(result), value: result.output },
    );
  }
}

function placeOf({ id, key }: UpdateRef): string {
  return JSON.stringify([id, key]);
}
