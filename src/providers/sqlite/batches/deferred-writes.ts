import type { StoredEvent } from '../../../model/event.ts';
import { isLarge, payloadPosition, type EventRow, type History } from '../tables/history.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { Messages } from '../tables/messages.ts';

/**
 * Collects writes of turns until the end of their transaction: events, and the clean-up of ended instances.
 * One statement for many rows takes half to two thirds of the time. Later turns in the group do not read these rows:
 * they see the end of an instance in its own row, and only append to histories. Other operations flush first.
 */
export class DeferredWrites {
  readonly #history: History;
  readonly #locks: InstanceLocks;
  readonly #messages: Messages;
  #events: EventRow[] = [];
  #ended: number[] = [];

  constructor(parts: {
    readonly history: History;
    readonly locks: InstanceLocks;
    readonly messages: Messages;
  }) {
    this.#history = parts.history;
    this.#locks = parts.locks;
    this.#messages = parts.messages;
  }

  append(options: {
    readonly instanceKey: number;
    readonly executionId: number;
    readonly firstEventId: number;
    readonly events: readonly StoredEvent[];
  }): void {
    const { instanceKey, executionId, firstEventId, events } = options;
    let eventId = firstEventId;
    for (const { kind, at, data, payload } of events) {
      const row: EventRow = [instanceKey, executionId, eventId, kind, at, data, payload];
      if (!isLarge(payload)) this.#events.push(row);
      else this.#history.insertLarge(row, firstEventId + payloadPosition(events, payload));
      eventId += 1;
    }
  }

  /** Deletes the messages and the lock of an ended instance. */
  clear(instanceKey: number): void {
    this.#ended.push(instanceKey);
  }

  /** Writes everything collected. */
  flush(): void {
    if (this.#events.length > 0) {
      this.#history.insert(this.#events);
      this.#events = [];
    }
    if (this.#ended.length > 0) {
      this.#messages.deleteOf(this.#ended);
      this.#locks.deleteAll(this.#ended);
      this.#ended = [];
    }
  }

  /** Discards everything collected, after a rollback. */
  discard(): void {
    this.#events = [];
    this.#ended = [];
  }
}
