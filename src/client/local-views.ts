import { decodePayload, type Payload } from '../model/values/payload.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { ViewBackend } from './client-backend.ts';
import { readTreePage, type TreeCall, type TreePage } from './reading/instance-tree-page.ts';
import { readTimeline } from './reading/timeline-reader.ts';
import type { Timeline, TimelineCall } from './reading/timeline.ts';
import {
  watchHistory,
  type WatchedEvent,
  type WatchHistoryCall,
} from './watching/history-watch.ts';
import {
  checkStream,
  readStream,
  type StreamCall,
  type StreamEntry,
} from './watching/stream-reader.ts';
import { clientClosed } from './waiting/instance-errors.ts';
import { HintWaiter } from './waiting/hint-waiter.ts';
import { InstanceWatch } from './watching/instance-watch.ts';
import type { InstanceChange } from './watching/watched-ids.ts';

/** Reads for viewers, and follows changes, on the store of this process. */
export class LocalViews implements ViewBackend {
  readonly #provider: Provider;
  readonly #watch: InstanceWatch;
  readonly #hints: HintWaiter;
  readonly #closing = new AbortController();

  constructor(provider: Provider, recheckMs?: number) {
    this.#provider = provider;
    this.#watch = new InstanceWatch(provider, recheckMs);
    this.#hints = new HintWaiter({ provider, recheckMs });
  }

  timeline(id: string, call: TimelineCall): Promise<Timeline> {
    return readTimeline(this.#provider, id, call);
  }

  tree(id: string, call: TreeCall): Promise<TreePage> {
    return readTreePage(this.#provider, id, call);
  }

  watch(
    ids: readonly string[],
    signal?: AbortSignal,
  ): AsyncGenerator<readonly InstanceChange[], void, undefined> {
    return this.#watch.changes(ids, signal);
  }

  /** Returns when a change of a watched id was last found, by `platform.monotonic()`. */
  changedAt(id: string): number | undefined {
    return this.#watch.changedAt(id);
  }

  watchHistory(
    id: string,
    call: WatchHistoryCall,
    signal?: AbortSignal,
  ): AsyncGenerator<WatchedEvent, void, undefined> {
    return watchHistory({ provider: this.#provider, watch: this.#watch }, id, call, signal);
  }

  async *stream(
    id: string,
    call: StreamCall,
    signal?: AbortSignal,
    read: (payload: Payload) => unknown = decodePayload,
  ): AsyncGenerator<StreamEntry, void, undefined> {
    const closing = this.#closing.signal;
    const either = signal === undefined ? closing : AbortSignal.any([signal, closing]);
    const source = { provider: this.#provider, hints: this.#hints, read };
    yield* readStream(source, id, call, either);
  }

  /** Rejects if there is no such stream, or if the cursor is not one of it. */
  async checkStream(id: string, call: StreamCall): Promise<void> {
    await checkStream(this.#provider, id, call);
  }

  /** Rejects all watches and streams with `CLOSED`. */
  close(): void {
    this.#closing.abort(clientClosed());
    this.#watch.close();
  }
}
