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
import { InstanceWatch } from './watching/instance-watch.ts';
import type { InstanceChange } from './watching/watched-ids.ts';

/** Reads for viewers, and follows changes, on the store of this process. */
export class LocalViews implements ViewBackend {
  readonly #provider: Provider;
  readonly #watch: InstanceWatch;

  constructor(provider: Provider, recheckMs?: number) {
    this.#provider = provider;
    this.#watch = new InstanceWatch(provider, recheckMs);
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

  /** Returns when a change of a watched id was last found, by `performance.now()`. */
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

  /** Rejects all watches with `CLOSED`. */
  close(): void {
    this.#watch.close();
  }
}
