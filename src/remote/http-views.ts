import type { ViewBackend } from '../client/client-backend.ts';
import type { TreeCall, TreePage } from '../client/reading/instance-tree-page.ts';
import type { Timeline, TimelineCall } from '../client/reading/timeline.ts';
import type { WatchedEvent, WatchHistoryCall } from '../client/watching/history-watch.ts';
import type { InstanceChange } from '../client/watching/watched-ids.ts';
import {
  formatCursor,
  type StreamCall,
  type StreamEntry,
} from '../client/watching/stream-reader.ts';
import { takeDecoded } from '../model/encoding/encoded-value.ts';
import type { Transport } from './transport.ts';

/** Reads for viewers, and follows changes, over HTTP. A lost stream is opened again where it ended. */
export class HttpViews implements ViewBackend {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  timeline(id: string, call: TimelineCall): Promise<Timeline> {
    return this.#transport.call('getTimeline', { params: { id }, query: { ...call } });
  }

  tree(id: string, call: TreeCall): Promise<TreePage> {
    return this.#transport.call('readTree', { params: { id }, query: { ...call } });
  }

  async *watch(
    ids: readonly string[],
    signal: AbortSignal | undefined,
  ): AsyncGenerator<readonly InstanceChange[], void, undefined> {
    const versions = new Map<string, string>();
    const request = () => ({ body: { ids: [...ids] } });
    for await (const { items } of this.#transport.follow('watchInstances', request, signal)) {
      // A new stream begins with the states of all ids.
      const changed = items.filter(({ id, version }) => versions.get(id) !== version);
      for (const { id, version } of changed) versions.set(id, version);
      if (changed.length > 0) yield changed;
    }
  }

  async *watchHistory(
    id: string,
    { after, payloads, headBytes }: WatchHistoryCall,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<WatchedEvent, void, undefined> {
    let position = after === undefined ? undefined : `${after.executionId}.${after.id}`;
    const request = () => ({ params: { id }, query: { after: position, payloads, headBytes } });
    for await (const message of this.#transport.follow('watchHistory', request, signal)) {
      if (message.kind === 'end') return;
      const { kind: _, ...event } = message;
      position = event.position;
      yield event;
    }
  }

  async *stream(
    id: string,
    { after }: StreamCall,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<StreamEntry, void, undefined> {
    let cursor = after === undefined ? undefined : formatCursor(after);
    const request = () => ({ params: { id }, query: { after: cursor } });
    for await (const message of this.#transport.follow('streamInstance', request, signal)) {
      if (message.kind === 'end') return;
      cursor = message.cursor;
      if (message.kind === 'chunk') takeDecoded(message.value);
      yield message;
    }
  }
}
