import type { StateBackend, StateEntry, Versioned } from '../client/reading/state.ts';
import { noVersionInTime } from '../client/waiting/instance-errors.ts';
import { systemClock } from '../model/clock.ts';
import { takeDecoded } from '../model/encoding/encoded-value.ts';
import { isPerdureError } from '../model/failures/errors.ts';
import type { StateRequest } from '../providers/contract/state.ts';
import { toTypedError } from './remote-error.ts';
import { pollMs, SharedPoll, type PollResult, type PollSlots } from './shared-poll.ts';
import type { CallOptions, Transport } from './transport.ts';

/** Reads the state and the custom status of instances over HTTP. All waits of a client share long polls. */
export class HttpStates implements StateBackend {
  readonly #transport: Transport;
  readonly #poll: SharedPoll<StateRequest, Versioned>;

  constructor(transport: Transport, slots: PollSlots) {
    this.#transport = transport;
    const retryForMs = Number.POSITIVE_INFINITY;
    this.#poll = new SharedPoll(slots, (requests, signal) =>
      this.#ask(requests, pollMs, { retryForMs, signal }),
    );
  }

  async read(id: string, key: string | undefined): Promise<readonly StateEntry[]> {
    const entries: StateEntry[] = [];
    let after: string | undefined;
    do {
      const query = { key, after };
      const page = await this.#transport.call('readState', { params: { id }, query });
      for (const { value } of page.items) takeDecoded(value);
      entries.push(...page.items);
      after = page.nextKey;
    } while (after !== undefined);
    return entries;
  }

  /** Retries while the server is unreachable. */
  async wait(request: StateRequest, timeoutMs: number | undefined): Promise<Versioned> {
    const found = await this.#wait(request, timeoutMs);
    takeDecoded(found.value);
    return found;
  }

  /** Rejects all waits with this error. */
  close(error: Error): void {
    this.#poll.close(error);
  }

  async #wait(request: StateRequest, timeoutMs: number | undefined): Promise<Versioned> {
    const key = keyOf(request);
    if (timeoutMs === undefined) return this.#poll.wait(key, request);
    const timeout = new AbortController();
    const cancelAlarm = systemClock.setTimer(timeoutMs, () => timeout.abort());
    try {
      return await this.#poll.wait(key, request, timeout.signal);
    } catch (error) {
      if (!timeout.signal.aborted) throw error;
      return await this.#readLast(request, timeoutMs);
    } finally {
      cancelAlarm();
    }
  }

  async #ask(
    requests: readonly StateRequest[],
    timeoutMs: number,
    options: CallOptions,
  ): Promise<readonly PollResult<Versioned>[]> {
    const waits = requests.map(({ instanceId: id, key, after }) => ({
      id,
      after,
      ...(key !== undefined && { key }),
    }));
    const { results } = await this.#transport.call(
      'waitForStates',
      { body: { waits, timeoutMs } },
      { ...options, repeatable: true, waitMs: timeoutMs },
    );
    return results.flatMap((result): PollResult<Versioned>[] => {
      const request = requests[result.place];
      if (request === undefined) return [];
      const key = keyOf(request);
      if ('error' in result) return [{ key, error: toTypedError(result.error, 'wait') }];
      return [{ key, value: { value: result.value, version: result.version } }];
    });
  }

  /** Asks once more after a timeout, so that a lost response is not reported as one. */
  async #readLast(request: StateRequest, timeoutMs: number): Promise<Versioned> {
    let result: PollResult<Versioned> | undefined;
    try {
      [result] = await this.#ask([request], 0, { retryForMs: 0 });
    } catch (error) {
      if (isPerdureError(error, 'PROVIDER')) throw noVersionInTime(request, timeoutMs, error);
      throw error;
    }
    if (result === undefined) throw noVersionInTime(request, timeoutMs);
    if ('error' in result) throw result.error;
    return result.value;
  }
}

function keyOf({ instanceId, what, key, after }: StateRequest): string {
  return JSON.stringify([instanceId, what, key, after]);
}
