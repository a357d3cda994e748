import { setTimeout as delay } from 'node:timers/promises';
import type { Hint, Provider } from '../../providers/contract/provider.ts';
import type { QueueDepths, SystemMetrics } from '../../providers/contract/management.ts';

/** Something changed. */
export type Change =
  | { readonly kind: 'ended'; readonly ids: string[]; readonly missed?: true }
  | { readonly kind: 'changed'; readonly ids: string[] }
  | { readonly kind: 'figures'; readonly queues: QueueDepths; readonly system: SystemMetrics };

/** Whoever listens: what they have not been told yet. */
interface Listener {
  readonly ended: Set<string>;
  /** Instances whose custom status was set. */
  readonly changed: Set<string>;
  missed: boolean;
  figures: Extract<Change, { kind: 'figures' }> | undefined;
  wake: () => void;
}

// A start in this process makes no hint, so figures are also read without one.
const pollIntervalMs = 1_000;
const maxIdsKept = 10_000;
const maxIdsPerMessage = 1_000;

/**
 * Tells of changes. However many listen, the store is read once; however slow one of them is, what it has not been
 * told is kept in bounded space; and when nobody listens nothing is read.
 */
export class ChangeFeed {
  readonly #provider: Provider;
  readonly #listeners = new Set<Listener>();
  #stopListening: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #shown = '';
  #figures: Listener['figures'];

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  /** Changes as they come: ids of instances that ended or whose custom status was set, and figures whenever they differ. */
  async *changes(signal: AbortSignal): AsyncGenerator<Change, void, undefined> {
    const listener: Listener = {
      ended: new Set(),
      changed: new Set(),
      missed: false,
      figures: this.#figures,
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

  /** The moments at which an instance may have changed, the first of them now. */
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
        const giveUp = (): void => pause.abort();
        signal.addEventListener('abort', giveUp, { once: true });
        const look = delay(pollIntervalMs, undefined, { signal: pause.signal }).catch(
          () => undefined,
        );
        await Promise.race([promise, look]);
        pause.abort();
        signal.removeEventListener('abort', giveUp);
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
    this.#look();
  }

  #remove(listener: Listener): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size > 0) return;
    this.#stopListening?.();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#figures = undefined;
    this.#shown = '';
  }

  #onHint(hint: Hint): void {
    if (hint.kind !== 'finished' && hint.kind !== 'statusSet' && hint.kind !== 'missed') return;
    for (const listener of this.#listeners) {
      if (hint.kind === 'missed') listener.missed = true;
      else addIds(listener, hint.kind === 'finished' ? 'ended' : 'changed', hint.instanceIds);
      listener.wake();
    }
  }

  /** Reads the figures, tells of them if they differ, and looks again later: never twice at once. */
  #look(): void {
    const reads = Promise.all([this.#provider.queueDepths(), this.#provider.systemMetrics()]);
    reads
      .then(
        ([queues, system]) => this.#tell({ kind: 'figures', queues, system }),
        // A store that cannot be read now is read again; whoever asks it for more is told why.
        () => undefined,
      )
      .finally(() => {
        if (this.#listeners.size === 0) return;
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.#look(), pollIntervalMs);
      });
  }

  #tell(figures: Extract<Change, { kind: 'figures' }>): void {
    const shown = JSON.stringify(figures);
    if (shown === this.#shown || this.#listeners.size === 0) return;
    this.#shown = shown;
    this.#figures = figures;
    for (const listener of this.#listeners) {
      listener.figures = figures;
      listener.wake();
    }
  }
}

/** Keeps ids for a listener; when they are too many it is told that it missed some. */
function addIds(listener: Listener, kind: 'ended' | 'changed', ids: readonly string[]): void {
  for (const id of ids) listener[kind].add(id);
  if (listener[kind].size <= maxIdsKept) return;
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
  const { figures } = listener;
  listener.figures = undefined;
  return figures;
}

function waitForWake(listener: Listener, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason as Error);
    if (signal.aborted) return giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    listener.wake = () => {
      signal.removeEventListener('abort', giveUp);
      resolve();
    };
  });
}

function concerns(hint: Hint, instanceId: string): boolean {
  if (hint.kind === 'changed' || hint.kind === 'missed') return true;
  if (hint.kind !== 'finished' && hint.kind !== 'statusSet') return false;
  return hint.instanceIds.includes(instanceId);
}
