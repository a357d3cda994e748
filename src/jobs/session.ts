import { sessionClosed } from './job-errors.ts';
import type { LiveSession } from './live-session.ts';
import { readMode, readVariable, type SessionInfo, type ShutdownMode } from './session-info.ts';
import type { Submitter } from './job-request.ts';

/**
 * A group of jobs of this client. The client renews its lease in the background. If the process dies, the session ends
 * forcefully when the lease expires.
 */
export class Session implements Submitter, AsyncDisposable {
  readonly id: string;
  readonly label: string | undefined;
  readonly submit: Submitter['submit'];
  readonly #live: LiveSession;

  constructor(live: LiveSession, submit: Submitter['submit']) {
    this.id = live.id;
    this.label = live.label;
    this.submit = submit;
    this.#live = live;
  }

  /**
   * Rejects new jobs with `SESSION_CLOSED` and resolves when the session has ended: `graceful` waits for its jobs,
   * `forceful` cancels them. Graceful may become forceful, not the reverse (`SESSION_DOWNGRADE`). Idempotent.
   */
  async shutdown(mode: ShutdownMode): Promise<void> {
    await this.#live.shutdown(readMode(mode));
  }

  /**
   * Gives up all its jobs and cancels them; later calls on them reject. Does not wait for their end. Never rejects.
   */
  async close(): Promise<void> {
    await this.#live.leave(sessionClosed(this.id, 'ended'));
  }

  /** Reads the session. */
  info(): Promise<SessionInfo> {
    return this.#live.info();
  }

  /** Sets a variable. */
  async setVariable(name: string, value: string): Promise<void> {
    await this.#live.setVariables(Object.fromEntries([readVariable(name, value)]));
  }

  /** Deletes a variable. */
  async unsetVariable(name: string): Promise<void> {
    await this.#live.setVariables(Object.fromEntries([readVariable(name, null)]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
