/** Number of runs that a schedule remembers after they have ended. */
const maxRemembered = 20;
/** Maximum runs that a schedule remembers, for schedules whose ended runs are not read. */
const maxTracked = 1_000;

/** Maximum ids in `waitsFor` of `dueSchedules`. */
export const maxWaitsFor = 1_000;

/** What a tick reads of its schedule. */
interface KnownRuns {
  readonly runIds: readonly string[];
  readonly lastInstanceId: string | null;
}

/** The runs that a tick with `whileRunning` must check: all that the schedule remembers. */
export function runsToCheck({ runIds, lastInstanceId }: KnownRuns): readonly string[] {
  if (lastInstanceId === null || runIds.includes(lastInstanceId)) return runIds;
  return [...runIds, lastInstanceId];
}

/** The runs to remember after a tick: the newest ones, and every older one that is live. */
export function rememberRuns(
  known: readonly string[],
  started: readonly string[],
  isLive: (instanceId: string) => boolean = () => false,
): readonly string[] {
  const all = [...new Set([...known, ...started])];
  const newest = all.slice(-maxRemembered);
  const older = all.slice(0, -maxRemembered).filter(isLive);
  return [...older, ...newest].slice(-maxTracked);
}

/** The runs to remember after a trigger. Their status is not known, so none is dropped before the limit. */
export function appendRuns(
  known: readonly string[],
  started: readonly string[],
): readonly string[] {
  return [...new Set([...known, ...started])].slice(-maxTracked);
}

/** A list as stored: JSON text, or `null` if it is empty. */
export function toStoredList(list: readonly (string | number)[]): string | null {
  return list.length === 0 ? null : JSON.stringify(list);
}

/** Reads a stored list of run ids. */
export function readRunIds(stored: string | null): readonly string[] {
  return stored === null ? [] : (JSON.parse(stored) as readonly string[]);
}

/** Reads a stored list of tick times. */
export function readTicks(stored: string | null): readonly number[] {
  return stored === null ? [] : (JSON.parse(stored) as readonly number[]);
}
