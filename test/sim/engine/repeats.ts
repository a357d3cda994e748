type Entry = Readonly<Record<string, unknown>>;
type Repeat = (entry: Entry, result: unknown) => Entry | undefined;

const created = (result: unknown): boolean => (result as { kind?: string }).kind === 'created';
const ok = (result: unknown): boolean => (result as { ok?: boolean }).ok === true;

/** What a client sends if it did not get the outcome of its start. */
const start: Repeat = (entry, result) =>
  created(result) ? { ...entry, isRepeat: true } : undefined;
const stop: Repeat = (entry, result) =>
  entry['key'] !== undefined && (result as { changed?: boolean }).changed === true
    ? entry
    : undefined;
const ack: Repeat = (entry, result) => (ok(result) && entry['keep'] !== true ? entry : undefined);
const handBack: Repeat = (entry, result) => (result === true ? entry : undefined);

/** The entries of committed calls that a store must recognize when they come again. */
const repeats: Readonly<Record<string, Repeat>> = {
  createInstances: start,
  createTasks: start,
  submitJobs(entry, result) {
    if (!created(result)) return undefined;
    const run = entry['kind'] === 'task' ? 'task' : 'instance';
    return { ...entry, [run]: { ...(entry[run] as Entry), isRepeat: true } };
  },
  requestCancel: stop,
  terminate: stop,
  ackTurns: ack,
  ackOrchestrationItems: ack,
  ackWorkItems: ack,
  abandonWorkItems: handBack,
  abandonOrchestrationItems: handBack,
  retryWorkItems: handBack,
  // A run of a task has no execution that its retry could name.
  retryInstances: (entry, result) =>
    entry['start'] !== undefined && (result as { kind?: string }).kind === 'retried'
      ? entry
      : undefined,
  tickSchedules: handBack,
};

/**
 * The arguments of a repeat of a committed call, which must change nothing. Absent: a repeat of the call may have an
 * effect.
 */
export function repeatOf(
  method: string,
  args: readonly unknown[],
  result: unknown,
): readonly unknown[] | undefined {
  const repeat = repeats[method];
  if (repeat === undefined) return undefined;
  const entries = (args[0] as readonly Entry[]).flatMap((entry, index) => {
    const again = repeat(entry, (result as readonly unknown[])[index]);
    return again === undefined ? [] : [again];
  });
  return entries.length === 0 ? undefined : [entries, ...args.slice(1)];
}
