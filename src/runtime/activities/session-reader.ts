import type { Clock } from '../../model/clock.ts';
import { sessionOf } from '../../model/values/headers.ts';
import { decodeHeaders } from '../../model/work-item-options.ts';
import type { HandlerSession } from '../../orchestration/activity-context.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import { withRetries } from '../maintenance/provider-retry.ts';
import type { ResolvedOptions } from '../options.ts';

/** Reads the sessions of jobs for their handlers. Concurrent attempts of a session share a read. */
export class SessionReader {
  readonly #store: Pick<Provider, 'getSessions'>;
  readonly #clock: Clock;
  readonly #options: Pick<ResolvedOptions, 'logger' | 'activityLeaseMs'>;
  readonly #reads = new Map<string, Promise<HandlerSession | undefined>>();

  constructor(
    store: Pick<Provider, 'getSessions'>,
    clock: Clock,
    options: Pick<ResolvedOptions, 'logger' | 'activityLeaseMs'>,
  ) {
    this.#store = store;
    this.#clock = clock;
    this.#options = options;
  }

  /** Returns the session of an item; `undefined` without a promise if it has none. */
  read({ options }: WorkItem): Promise<HandlerSession | undefined> | undefined {
    // Most items have no session. The text is parsed only if it can have one.
    if (options?.includes('perdure-session') !== true) return undefined;
    const id = sessionOf(decodeHeaders(options));
    return id === undefined ? undefined : this.#share(id);
  }

  #share(id: string): Promise<HandlerSession | undefined> {
    const pending = this.#reads.get(id);
    if (pending !== undefined) return pending;
    const read = this.#read(id).finally(() => this.#reads.delete(id));
    this.#reads.set(id, read);
    return read;
  }

  async #read(id: string): Promise<HandlerSession | undefined> {
    const { logger, activityLeaseMs } = this.#options;
    const deadline = this.#clock.monotonic() + activityLeaseMs;
    const [session] = await withRetries({ clock: this.#clock, logger, deadline }, () =>
      this.#store.getSessions([id]),
    );
    return session && { id, variables: session.variables };
  }
}
