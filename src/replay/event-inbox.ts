import type { BufferedEvent } from '../model/event.ts';
import type { Payload } from '../model/values/payload.ts';
import type { Operation } from './operations.ts';

interface Mailbox {
  /** Events without a wait, oldest first, from `head` on. */
  buffered: (Payload | null)[];
  head: number;
  /** Waits without an event, oldest first. Events and waits are never both present. */
  readonly waits: Set<Operation>;
}

/** Matches external events with waits: per name, in FIFO order (R5). */
export class EventInbox {
  /** Absent until the first event or wait: most executions have none. */
  #mailboxes: Map<string, Mailbox> | undefined;
  #size = 0;

  /** The number of buffered events. */
  get size(): number {
    return this.#size;
  }

  /** Returns the oldest wait for the event, or buffers the event. */
  deliver(name: string, payload: Payload | null): Operation | undefined {
    const mailbox = this.#mailbox(name);
    const [first] = mailbox.waits;
    if (first !== undefined) {
      mailbox.waits.delete(first);
      return first;
    }
    mailbox.buffered.push(payload);
    this.#size += 1;
    return undefined;
  }

  /** Removes and returns the oldest buffered event of this name, if there is one. */
  take(name: string): { readonly payload: Payload | null } | undefined {
    const mailbox = this.#mailboxes?.get(name);
    if (mailbox === undefined || mailbox.head >= mailbox.buffered.length) return undefined;
    const payload = mailbox.buffered[mailbox.head] ?? null;
    mailbox.head += 1;
    this.#size -= 1;
    if (mailbox.head * 2 > mailbox.buffered.length) {
      mailbox.buffered = mailbox.buffered.slice(mailbox.head);
      mailbox.head = 0;
    }
    return { payload };
  }

  wait(operation: Operation): void {
    this.#mailbox(operation.name).waits.add(operation);
  }

  /** Removes a withdrawn wait. */
  forget(operation: Operation): void {
    this.#mailboxes?.get(operation.name)?.waits.delete(operation);
  }

  /** Returns the buffered events for the next execution, in order within each name. */
  leftovers(): BufferedEvent[] {
    return [...(this.#mailboxes ?? [])].flatMap(([name, { buffered, head }]) =>
      buffered.slice(head).map((payload) => ({ name, payload })),
    );
  }

  #mailbox(name: string): Mailbox {
    this.#mailboxes ??= new Map();
    let mailbox = this.#mailboxes.get(name);
    if (mailbox === undefined) {
      mailbox = { buffered: [], head: 0, waits: new Set() };
      this.#mailboxes.set(name, mailbox);
    }
    return mailbox;
  }
}
