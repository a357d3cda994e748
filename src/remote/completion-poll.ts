import { waitTimedOut } from '../client/waiting/instance-errors.ts';
import type { InstanceInfo } from '../client/reading/instance-info.ts';
import { systemClock } from '../model/clock.ts';
import { isPerdureError } from '../model/failures/errors.ts';
import { pollMs, SharedPoll, type PollSlots, type PollResult } from './shared-poll.ts';
import { toTypedError } from './remote-error.ts';
import type { CallOptions, Transport } from './transport.ts';

/** Waits for instances to end, with one shared poll per client. */
export class CompletionPoll {
  readonly #transport: Transport;
  readonly #poll: SharedPoll<string, InstanceInfo>;
  readonly #describeWait: (id: string) => Promise<string | undefined>;

  constructor(
    transport: Transport,
    slots: PollSlots,
    describe: (id: string) => Promise<string | undefined>,
  ) {
    this.#transport = transport;
    this.#describeWait = describe;
    const retryForMs = Number.POSITIVE_INFINITY;
    this.#poll = new SharedPoll(slots, (ids, signal) =>
      this.#ask(ids, pollMs, { retryForMs, signal }),
    );
  }

  /** Resolves once the instance has ended. Retries while the server is unreachable. */
  async wait(id: string, timeoutMs?: number): Promise<InstanceInfo> {
    if (timeoutMs === undefined) return this.#poll.wait(id, id);
    const timeout = new AbortController();
    const cancelAlarm = systemClock.setTimer(timeoutMs, () => timeout.abort());
    try {
      return await this.#poll.wait(id, id, timeout.signal);
    } catch (error) {
      if (!timeout.signal.aborted) throw error;
      return await this.#readLast(id, timeoutMs);
    } finally {
      cancelAlarm();
    }
  }

  /** Rejects all waits with this error. */
  close(error: Error): void {
    this.#poll.close(error);
  }

  async #ask(
    ids: readonly string[],
    timeoutMs: number,
    options: CallOptions,
  ): Promise<readonly PollResult<InstanceInfo>[]> {
    const { results } = await this.#transport.call(
      'waitForInstances',
      { body: { ids: [...ids], timeoutMs } },
      { ...options, repeatable: true, waitMs: timeoutMs },
    );
    return results.map((result) =>
      'instance' in result
        ? { key: result.id, value: result.instance }
        : { key: result.id, error: toTypedError(result.error, 'wait') },
    );
  }

  /** Reads the instance once more after a timeout, so that a lost response is not reported as one. */
  async #readLast(id: string, timeoutMs: number): Promise<InstanceInfo> {
    let result: PollResult<InstanceInfo> | undefined;
    try {
      [result] = await this.#ask([id], 0, { retryForMs: 0 });
    } catch (error) {
      if (isPerdureError(error, 'PROVIDER')) throw waitTimedOut(id, timeoutMs, { cause: error });
      throw error;
    }
    if (result === undefined) {
      const waitsFor = await this.#describeWait(id);
      throw waitTimedOut(id, timeoutMs, { waitsFor });
    }
    if ('error' in result) throw result.error;
    return result.value;
  }
}
