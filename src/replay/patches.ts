import type { CommandEvent, HistoryEvent } from '../model/event.ts';
import type { CancelScope } from './cancellation/cancel-scope.ts';

/** The execution whose patches are asked for. */
interface PatchHost {
  readonly nowMs: number;
  readonly isReplaying: boolean;
  /** Whether the next event of the code is after those that a retry or a fork copied. */
  readonly isPastInherited: boolean;
  readonly recordedNext: HistoryEvent | undefined;
  enter(what: string, name?: string): CancelScope;
  hasEnded(scope: CancelScope): boolean;
  record(command: CommandEvent): void;
}

/**
 * The patches of an execution. The first call for an id decides. A new execution has the patch and records a marker. A
 * replay has the patch if the marker is recorded at this place.
 */
export class Patches {
  readonly #host: PatchHost;
  /** Absent until the first one. */
  #known: Map<string, boolean> | undefined;

  constructor(host: PatchHost) {
    this.#host = host;
  }

  has(id: string): boolean {
    const host = this.#host;
    const scope = host.enter('patched', id);
    const known = this.#known?.get(id);
    if (known !== undefined) return known;
    // Code that runs on after the end records nothing, so that its answer must not count for a shield.
    if (host.hasEnded(scope)) return true;
    const next = host.recordedNext;
    const isMarked = next?.kind === 'patchMarked' && next.id === id;
    // A copy of events may end just before the marker.
    const isNew = !host.isReplaying || (next === undefined && host.isPastInherited);
    const has = isMarked || isNew;
    if (has) host.record({ kind: 'patchMarked', at: host.nowMs, id });
    (this.#known ??= new Map()).set(id, has);
    return has;
  }
}
