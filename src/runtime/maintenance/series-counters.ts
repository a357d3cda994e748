import type { TerminalStatus } from '../../model/status.ts';
import type { SeriesRow } from '../../providers/contract/series.ts';
import {
  addCounts,
  addDuration,
  maxSeriesNames,
  minuteMs,
  noCounts,
  otherName,
  stopStatuses,
  totalName,
  type MutableCounts,
} from '../../providers/rules/series.ts';

const stops: ReadonlySet<TerminalStatus> = new Set(stopStatuses);

type Minute = Map<string, MutableCounts>;

// Bounds the memory while the store is unavailable.
const maxMinutes = 60;

/** Counts starts, ends and durations by minute and name, in memory. Takes times that its callers have read anyway. */
export class SeriesCounters {
  readonly #minutes = new Map<number, Minute>();
  #currentAt = Number.NaN;
  #current: Minute = new Map();

  started(name: string, nowMs: number): void {
    this.#of(name, nowMs).starts += 1;
  }

  /**
   * `durationMs` is that of an orchestration execution. Absent: unknown. Stops are counted from the instances instead,
   * because the store also stops instances without a worker.
   */
  ended(name: string, nowMs: number, status: TerminalStatus, durationMs?: number): void {
    const { ends, instances } = this.#of(name, nowMs);
    if (!isStop(status)) ends[status] = (ends[status] ?? 0) + 1;
    if (durationMs !== undefined && !Number.isNaN(durationMs)) addDuration(instances, durationMs);
  }

  attempted(name: string, nowMs: number, durationMs: number): void {
    addDuration(this.#of(name, nowMs).attempts, durationMs);
  }

  /** Counts how long an activity or task waited for its claim. */
  waited(name: string, nowMs: number, waitMs: number): void {
    addDuration(this.#of(name, nowMs).waits, waitMs);
  }

  /** Removes and returns all counts, with a total per minute. */
  take(): readonly SeriesRow[] {
    const rows: SeriesRow[] = [];
    for (const [minute, names] of this.#minutes) {
      const total = noCounts();
      for (const [name, counts] of names) {
        addCounts(total, counts);
        rows.push({ minute, name, counts });
      }
      rows.push({ minute, name: totalName, counts: total });
    }
    this.#minutes.clear();
    this.#currentAt = Number.NaN;
    return rows;
  }

  #of(name: string, nowMs: number): MutableCounts {
    // Written so that NaN also selects the minute again.
    if (!(nowMs >= this.#currentAt && nowMs < this.#currentAt + minuteMs)) this.#select(nowMs);
    const counts = this.#current.get(name);
    if (counts !== undefined) return counts;
    const isFull = this.#current.size >= maxSeriesNames && name !== otherName;
    return isFull ? this.#of(otherName, nowMs) : this.#add(name);
  }

  #add(name: string): MutableCounts {
    const counts = noCounts();
    this.#current.set(name, counts);
    return counts;
  }

  #select(now: number): void {
    this.#currentAt = Math.floor(now / minuteMs) * minuteMs;
    this.#current = this.#minutes.get(this.#currentAt) ?? new Map<string, MutableCounts>();
    this.#minutes.set(this.#currentAt, this.#current);
    if (this.#minutes.size <= maxMinutes) return;
    const [oldest] = this.#minutes.keys();
    if (oldest !== undefined) this.#minutes.delete(oldest);
  }
}

function isStop(status: TerminalStatus): boolean {
  return stops.has(status);
}
