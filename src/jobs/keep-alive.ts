import { retrying } from './retrying.ts';
import type { JobBackend } from './backend.ts';
import type { SessionInfo } from './session-info.ts';

export interface KeepAliveParams {
  readonly backend: JobBackend;
  readonly sessionId: string;
  readonly idleTimeoutMs: number;
  /** What was found of the session at each renewal; `undefined`: it is no more. */
  readonly onRenewed: (session: SessionInfo | undefined) => void;
}

/** Renews the lease of a session at a third of it, until stopped. */
export class KeepAlive {
  readonly #params: KeepAliveParams;
  readonly #stopped = new AbortController();
  #cancelAlarm: (() => void) | undefined;

  constructor(params: KeepAliveParams) {
    this.#params = params;
    this.#setAlarm();
  }

  stop(): void {
    this.#stopped.abort();
    this.#cancelAlarm?.();
  }

  #setAlarm(): void {
    const { backend, idleTimeoutMs } = this.#params;
    const { clock } = backend;
    this.#cancelAlarm = clock.setTimer(Math.floor(idleTimeoutMs / 3), () => {
      void this.#renew();
    });
  }

  async #renew(): Promise<void> {
    const { backend, sessionId, onRenewed } = this.#params;
    const { signal } = this.#stopped;
    try {
      const session = await retrying({ signal }, () => backend.keepAlive(sessionId));
      if (!signal.aborted) onRenewed(session);
    } catch {
      // Whatever cannot be mended by a repeat is told to whoever asks something of the session; it may yet pass.
    }
    if (!signal.aborted) this.#setAlarm();
  }
}
