import { setTimeout as delay } from 'node:timers/promises';
import type { Hint, Provider } from '../../providers/contract/provider.ts';
import {
  sumQueues,
  type DefinitionQueueInfo,
  type QueueTotals,
} from '../../client/reading/queues.ts';
import type { SystemMetrics } from '../../providers/contract/management.ts';

/** A message of the feed. `figures` has the metrics of the store. */
export type Change =
  | { readonly kind: 'ended'; readonly ids: string[]; readonly missed?: true }
  | { readonly kind: 'changed'; readonly ids: string[] }
  | { readonly kind: 'figures'; readonly queues: QueueTotals; readonly system: SystemMetrics };

/** A subscriber, with the changes that it has not received yet. */
interface Listener {
  readonly ended: Set<string>;
  /** Instances whose custom status was set. */
  readonly changed: Set<string>;
  missed: boolean;
  metrics: Extract<Change, { kind: 'figures' }> | undefined;
  wake: () => void;
}

// A start in this process sends no hint, so metrics are polled.
const pollIntervalMs = 1_000;
const maxBacklogIds = 10_000;
const maxIdsPerMessage = 1_000;

/**
 * Publishes changes to subscribers. All subscribers share one poll of the store, which runs only while there is one.
 * The backlog of a slow subscriber is bounded; if it overflows, the subscriber gets `missed`.
 */
export class ChangeFeed {
  readonly #provider: Provider;
  readonly #readQueues: () => Promise<readonly DefinitionQueueInfo[]>;
  readonly #listeners = new Set<Listener>();
  #stopListening: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #lastJson = '';
  #metrics: Listener['metrics'];

  /** `readQueues` reads the queues of the definitions. It is called once per poll. */
  constructor(provider: Provider, readQueues: () => Promise<readonly DefinitionQueueInfo[]>) {
    this.#provider = provider;
    this.#readQueues = readQueues;
  }

  /** Yields ids of instances that ended or set their custom status, and metrics when they change. */
  async *changes(signal: AbortSignal): AsyncGenerator<Change, void, undefined> {
    const listener: Listener = {
      ended: new Set(),
      changed: new Set(),
      missed: false,
      metrics: this.#metrics,
      wake: () => undefined,
    };
    this.#add(listener);
    try {
      for (;;) {
        const change = takeChange(listener);
        if (change !== undefined) yield change;
        else await waitForWake(listener, signal);
      }
    } finally {
      this.#remove(listener);
    }
  }

  /** Yields immediately, then whenever an instance may have changed: on a hint, or after 1 s. */
  async *wakeups(instanceId: string, signal: AbortSignal): AsyncGenerator<void, void, undefined> {
    let wake = (): void => undefined;
    const stop = this.#provider.hints((hint) => {
      if (concerns(hint, instanceId)) wake();
    });
    try {
      for (;;) {
        const { promise, resolve } = Promise.withResolvers<void>();
        wake = resolve;
        yield;
        const pause = new AbortController();
        const onAbort = (): void => pause.abort();
        signal.addEventListener('abort', onAbort, { once: true });
        const poll = delay(pollIntervalMs, undefined, { signal: pause.signal }).catch(
          () => undefined,
        );
        await Promise.race([promise, poll]);
        pause.abort();
        signal.removeEventListener('abort', onAbort);
        signal.throwIfAborted();
      }
    } finally {
      stop();
    }
  }

  #add(listener: Listener): void {
    this.#listeners.add(listener);
    if (this.#listeners.size > 1) return;
    this.#stopListening = this.#provider.hints((hint) => this.#onHint(hint));
    this.#poll();
  }

  #remove(listener: Listener): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size > 0) return;
    this.#stopListening?.();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#metrics = undefined;
    this.#lastJson = '';
  }

  #onHint(hint: Hint): void {
    if (hint.kind !== 'finished' && hint.kind !== 'statusSet' && hint.kind !== 'missed') return;
    for (const listener of this.#listeners) {
      if (hint.kind === 'missed') listener.missed = true;
      else addIds(listener, hint.kind === 'finished' ? 'ended' : 'changed', hint.instanceIds);
      listener.wake();
    }
  }

  /** Reads the metrics, publishes them if they changed, and schedules the next poll. */
  #poll(): void {
    const reads = Promise.all([this.#readQueues(), this.#provider.systemMetrics()]);
    reads
      .then(
        ([queues, system]) => this.#publish({ kind: 'figures', queues: sumQueues(queues), system }),
        // A failed read is retried by the next poll.
        () => undefined,
      )
      .finally(() => {
        if (this.#listeners.size === 0) return;
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#poll(), pollIntervalMs);
      });
  }

  #publish(metrics: Extract<Change, { kind: 'figures' }>): void {
    const json = JSON.stringify(metrics);
    if (json === this.#lastJson || this.#listeners.size === 0) return;
    this.#lastJson = json;
    this.#metrics = metrics;
    for (const listener of this.#listeners) {
      listener.metrics = metrics;
      listener.wake();
    }
  }
}

/** Adds ids to the backlog of a subscriber. If it overflows, drops them and sets `missed`. */
function addIds(listener: Listener, kind: 'ended' | 'changed', ids: readonly string[]): void {
  for (const id of ids) listener[kind].add(id);
  if (listener[kind].size <= maxBacklogIds) return;
  listener[kind].clear();
  listener.missed = true;
}

function takeChange(listener: Listener): Change | undefined {
  if (listener.missed) {
    listener.missed = false;
    return { kind: 'ended', ids: [], missed: true };
  }
  for (const kind of ['ended', 'changed'] as const) {
    const ids = [...listener[kind]].slice(0, maxIdsPerMessage);
    for (const id of ids) listener[kind].delete(id);
    if (ids.length > 0) return { kind, ids };
  }
  const { metrics } = listener;
  listener.metrics = undefined;
  return metrics;
}

function waitForWake(listener: Listener, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    listener.wake = () => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    };
  });
}

function concerns(hint: Hint, instanceId: string): boolean {
  if (hint.kind === 'changed' || hint.kind === 'missed') return true;
  if (hint.kind !== 'finished' && hint.kind !== 'statusSet') return false;
  return hint.instanceIds.includes(instanceId);
}
