/** Matches external events with the waits for them, in the order of the history. */
export class EventWaits {
  readonly #isPartial: boolean;
  /** The open waits of each name, oldest first. */
  readonly #waits = new Map<string, Set<number>>();
  readonly #names = new Map<number, string>();
  readonly #buffered = new Map<string, number>();

  /** `isPartial`: the first event is not the first of the history. */
  constructor(isPartial = false) {
    this.#isPartial = isPartial;
  }

  /** Returns whether the wait is open; a buffered event completes it. */
  wait(name: string, operation: number): boolean {
    const waits = this.#waits.get(name) ?? new Set();
    this.#waits.set(name, waits);
    const buffered = this.#buffered.get(name) ?? 0;
    if (buffered > 0) {
      this.#buffered.set(name, buffered - 1);
      return false;
    }
    waits.add(operation);
    this.#names.set(operation, name);
    return true;
  }

  withdraw(operation: number): void {
    this.#waits.get(this.#names.get(operation) ?? '')?.delete(operation);
  }

  /** Returns the operation that receives an event; `undefined` if the event is buffered. */
  arrive(name: string): number | undefined {
    const waits = this.#waits.get(name);
    const [oldest] = waits ?? [];
    if (oldest !== undefined) {
      waits?.delete(oldest);
      return oldest;
    }
    // Without the events before, the first one of a name most likely ended a wait that is not known.
    if (this.#isPartial && waits === undefined) return undefined;
    this.#buffered.set(name, (this.#buffered.get(name) ?? 0) + 1);
    return undefined;
  }
}
