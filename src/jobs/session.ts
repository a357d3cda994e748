import { sessionClosed } from './job-errors.ts';
import type { LiveSession } from './live-session.ts';
import { readMode, readVariable, type SessionInfo, type ShutdownMode } from './session-info.ts';
import type { Submitter } from './job-request.ts';

/**
 * A group of jobs that this client holds. It is kept alive in the background; should the process die, it ends forcefully
 * when it was not heard of for its idle timeout.
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
   * Takes no more jobs (`SESSION_CLOSED`) and resolves when it has ended: gracefully once its jobs are over, forcefully
   * by cancelling them. A graceful one may be made forceful, not the reverse (`SESSION_DOWNGRADE`); to repeat it is harmless.
   */
  async shutdown(mode: ShutdownMode): Promise<void> {
    await this.#live.shutdown(readMode(mode));
  }

  /**
   * Says goodbye: its jobs are given up and cancelled, and nothing can be asked of them any more. Does not wait for
   * their end; never rejects.
   */
  async close(): Promise<void> {
    await this.#live.leave(sessionClosed(this.id, 'ended'));
  }

  /** Reads what is known of it. */
  info(): Promise<SessionInfo> {
    return this.#live.info();
  }

  /** Sets a variable, for whoever looks. */
  async setVariable(name: string, value: string): Promise<void> {
    await this.#live.setVariables(Object.fromEntries([readVariable(name, value)]));
  }

  /** Takes a variable away. */
  async unsetVariable(name: string): Promise<void> {
    await this.#live.setVariables(Object.fromEntries([readVariable(name, null)]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
