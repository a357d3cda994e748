import type { Failure } from '../../model/failures/failure.ts';

/** Code broke after a turn that is in the store: the next turn has to say so. */
export interface BrokenReport {
  readonly instanceId: string;
  /** The turn after which it broke. */
  readonly turnId: string;
  readonly failure: Failure;
}

/**
 * Hears when the code of one execution breaks between its turns. It passes that on only for a turn that has
 * committed: what never became part of the instance (a start that was refused, a replay that did not agree) cannot harm it.
 */
export class BrokenCode {
  readonly #instanceId: string;
  readonly #report: (report: BrokenReport) => void;
  #failure: Failure | undefined;
  #turnId: string | undefined;
  #joined: BrokenCode | undefined;

  constructor(instanceId: string, report: (report: BrokenReport) => void) {
    this.#instanceId = instanceId;
    this.#report = report;
  }

  broke(failure: Failure): void {
    if (this.#joined !== undefined) {
      this.#joined.broke(failure);
      return;
    }
    this.#failure = failure;
    this.#tell();
  }

  /** Reports through another from now on: this code continues what that code began. */
  join(other: BrokenCode): void {
    this.#joined = other;
    if (this.#failure !== undefined) other.broke(this.#failure);
  }

  committed(turnId: string): void {
    this.#turnId = turnId;
    this.#tell();
  }

  #tell(): void {
    if (this.#failure === undefined || this.#turnId === undefined) return;
    this.#report({ instanceId: this.#instanceId, turnId: this.#turnId, failure: this.#failure });
  }
}
