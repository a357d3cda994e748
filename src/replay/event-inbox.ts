import type { BufferedEvent } from '../model/event.ts';
import type { Payload } from '../model/values/payload.ts';
import type { Operation } from './operations.ts';

interface Mailbox {
  /** Events that nobody has waited for yet, oldest first from `head` on. */
  buffered: (Payload | null)[];
  head: number;
  /** Waits that have no event yet, oldest first. At most one of the two is not empty. */
  readonly waits: Set<Operation>;
}

/** Brings external events and the waits for them together: per name, first come, first served. */
export class EventInbox {
  readonly #mailboxes = new Map<string, Mailbox>();
  #size = 0;

  /** How many events nobody has waited for yet. */
  get size(): number {
    return this.#size;
  }

  hasWait(name: string): boolean {
    return (this.#mailboxes.get(name)?.waits.size ?? 0) > 0;
  }

  /** Hands an event to the oldest wait, which is returned, or keeps it. */
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

  /** The oldest event kept under the name; `undefined` if there is none. */
  take(name: string): { readonly payload: Payload | null } | undefined {
    const mailbox = this.#mailboxes.get(name);
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

  /** A withdrawn wait consumes nothing. */
  forget(operation: Operation): void {
    this.#mailboxes.get(operation.name)?.waits.delete(operation);
  }

  /** What is left, for the next execution: the order within a name is kept. */
  leftovers(): BufferedEvent[] {
    return [...this.#mailboxes].flatMap(([name, { buffered, head }]) =>
      buffered.slice(head).map((payload) => ({ name, payload })),
    );
  }

  #mailbox(name: string): Mailbox {
    let mailbox = this.#mailboxes.get(name);
    if (mailbox === undefined) {
      mailbox = { buffered: [], head: 0, waits: new Set() };
      this.#mailboxes.set(name, mailbox);
    }
    return mailbox;
  }
}
