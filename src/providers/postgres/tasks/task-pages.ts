import type { CreateTaskResult, NewTask } from '../../contract/tasks.ts';

/** A task run, and its creation time if it is one of many. */
export interface PlacedTask {
  readonly task: NewTask;
  /** Claims take due runs in this order. `null`: the time of the statement that inserts it. */
  readonly createdAt: number | null;
}

export interface TaskPagesParts {
  readonly create: (tasks: readonly PlacedTask[]) => Promise<readonly CreateTaskResult[]>;
  /** Reads the clock of the database. */
  readonly readClock: () => Promise<number>;
  readonly monotonic: () => number;
  /** Whether the clock is that of the database, and not one of a test. */
  readonly isClockReal: boolean;
}

/** Runs per transaction. */
export const pageSize = 1_000;

// One backend inserts a page while the other inserts the next one. More would compete with the workers.
const pagesAtOnce = 2;

/**
 * Creates many runs in a transaction per page, two at a time. Each page has a later creation time than the one before, so
 * the runs are claimed in list order. The times are in the past by the clock of the database: a run is due immediately.
 *
 * Pages in which one task may find the run of another are created one after the other, as are those by the clock of a test.
 */
export async function createPages(
  parts: TaskPagesParts,
  tasks: readonly NewTask[],
): Promise<readonly CreateTaskResult[]> {
  const isConcurrent = parts.isClockReal && areIndependent(tasks);
  const timeOf = isConcurrent ? await increasingTimes(parts) : () => null;
  const results: (readonly CreateTaskResult[])[] = [];
  let next = 0;
  const createInTurn = async (): Promise<void> => {
    while (next < tasks.length) {
      const from = next;
      next += pageSize;
      const createdAt = timeOf();
      const page = tasks.slice(from, from + pageSize).map((task) => ({ task, createdAt }));
      try {
        results[from / pageSize] = await parts.create(page);
      } catch (error) {
        // No page begins after one has failed.
        next = tasks.length;
        throw error;
      }
    }
  };
  const ended = await Promise.allSettled(
    Array.from({ length: isConcurrent ? pagesAtOnce : 1 }, createInTurn),
  );
  for (const one of ended) if (one.status === 'rejected') throw one.reason as Error;
  return results.flat();
}

/** Whether no task can find the run of another one: then the order of the transactions does not matter. */
function areIndependent(tasks: readonly NewTask[]): boolean {
  const hasKey = ({ dedupeKey, debounce }: NewTask) =>
    dedupeKey !== undefined || debounce !== undefined;
  if (tasks.some(hasKey)) return false;
  return new Set(tasks.map(({ instanceId }) => instanceId)).size === tasks.length;
}

/** Returns a function whose results increase, at most as fast as the clock of the database unless it is called more often. */
async function increasingTimes({ readClock, monotonic }: TaskPagesParts): Promise<() => number> {
  const base = await readClock();
  // The clock was read before this, so later times are not in the future.
  const readBy = monotonic();
  let last = base - 1;
  return () => (last = Math.max(last + 1, base + Math.floor(monotonic() - readBy)));
}
