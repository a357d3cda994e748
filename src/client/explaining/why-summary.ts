import { codeOf } from '../../model/task-call.ts';
import { formatMs, movedText } from './why-text.ts';
import type {
  ActivityWait,
  BlockedWait,
  CancelWait,
  EndedWait,
  EventWait,
  PausedWait,
  PlaceWait,
  TaskWait,
  TimerWait,
  Wait,
  WorkerWait,
} from './why.ts';

type Operation = Extract<
  Wait,
  {
    readonly kind:
      | 'activity'
      | 'onFail'
      | 'task'
      | 'child'
      | 'detached'
      | 'event'
      | 'timer'
      | 'awakeable'
      | 'update';
  }
>;

interface SummaryOptions {
  readonly nowMs: number;
  readonly incomplete?: boolean;
  /** There are more operations than those given. */
  readonly hasMore?: boolean;
}

const maxTextLength = 160;

/**
 * Explains waits as one short sentence without a full stop, for a row of a list. Names are in backticks. The first
 * reason that applies is used: an end, a block, a pause, a cancel, a turn, an operation.
 */
export function summarizeWaits(waits: readonly Wait[], options: SummaryOptions): string {
  const { nowMs } = options;
  const of = <Kind extends Wait['kind']>(kind: Kind) =>
    waits.find((wait): wait is Extract<Wait, { readonly kind: Kind }> => wait.kind === kind);
  const ended = of('ended');
  if (ended !== undefined) return endedSummary(ended);
  const blocked = of('blocked');
  if (blocked !== undefined) return blockedSummary(blocked);
  const paused = of('paused');
  if (paused !== undefined) return pausedSummary(paused);
  const operations = waits.filter(isOperation).toSorted((a, b) => rank(a) - rank(b));
  const cancel = of('cancel');
  if (cancel !== undefined) return cancelSummary(cancel, operations, nowMs);
  const turn = of('turn');
  if (turn !== undefined) return `Runs a turn${on(turn.worker)}`;
  const worker = of('worker');
  if (worker !== undefined) return workerSummary(worker, nowMs);
  const delay = of('delay');
  if (delay !== undefined) return `Released by a worker: next claim ${inTime(delay.until, nowMs)}`;
  const debounced = of('debounced');
  if (debounced !== undefined) {
    return `Debounced: starts ${inTime(debounced.startsAt, nowMs)} (${movedText(debounced)})`;
  }
  const start = of('start');
  if (start !== undefined) return `Starts ${inTime(start.startsAt, nowMs)}`;
  const place = of('place');
  if (place !== undefined) return placeSummary(place);
  return operationSummary(operations, options);
}

function placeSummary({ key, global, running }: PlaceWait): string {
  if (global !== undefined && running >= global)
    return `Waits to begin: ${running} of ${global} have begun`;
  return key === undefined ? 'Waits to begin' : `Waits to begin: key ${code(key)} is in use`;
}

function isOperation(wait: Wait): wait is Operation {
  switch (wait.kind) {
    case 'activity':
    case 'onFail':
    case 'task':
    case 'child':
    case 'detached':
    case 'event':
    case 'timer':
    case 'awakeable':
    case 'update':
      return true;
    default:
      return false;
  }
}

const ranks = { retrying: 0, running: 1, queued: 2 };

/** Problems first, then work, then waits for others; a timer is often the timeout of another wait. */
function rank(wait: Operation): number {
  switch (wait.kind) {
    case 'child':
      return 3;
    case 'detached':
      return 4;
    case 'event':
    case 'awakeable':
      return 5;
    case 'update':
      return 5.5;
    case 'timer':
      return 6;
    default:
      return wait.unclaimed === 'noWorker' ? -1 : ranks[wait.state];
  }
}

function operationSummary(operations: readonly Operation[], options: SummaryOptions): string {
  const { nowMs, incomplete, hasMore } = options;
  const [first, ...others] = operations;
  if (first === undefined) {
    return incomplete === true
      ? 'Waits for an operation that is not among its last events'
      : 'Waits for nothing that the store shows';
  }
  const timer = others.find((wait): wait is TimerWait => wait.kind === 'timer');
  const isTimed =
    (first.kind === 'event' || first.kind === 'awakeable') &&
    timer !== undefined &&
    others.length === 1;
  if (isTimed) return `${summaryOf(first, nowMs)}, timer ${fires(timer, nowMs)}`;
  const more = others.length === 0 ? '' : `; ${others.length}${hasMore === true ? '+' : ''} more`;
  return `${summaryOf(first, nowMs)}${more}`;
}

function summaryOf(wait: Operation, nowMs: number): string {
  switch (wait.kind) {
    case 'timer':
      if (wait.step !== undefined)
        return `Step ${code(wait.step)} failed: next attempt ${inTime(wait.fireAt, nowMs)}`;
      return wait.fireAt > nowMs
        ? `Sleeps for another ${formatMs(wait.fireAt - nowMs)}`
        : `Waits for a turn: its timer was due ${formatMs(nowMs - wait.fireAt)} ago`;
    case 'event':
      return `Waits for ${eventSubject(wait)}`;
    case 'awakeable':
      return 'Waits for the answer to an awakeable';
    case 'update':
      return wait.deferred === true
        ? `Waits for its next execution, which handles update ${code(wait.name)}`
        : `Runs the handler of update ${code(wait.name)}`;
    case 'child': {
      const stop = wait.isStopping === true ? ' to stop' : '';
      return `Waits for child ${code(wait.name ?? wait.id)}${stop}`;
    }
    case 'detached':
      return `Starts ${code(wait.name ?? wait.id)}`;
    default:
      return workSummary(wait, nowMs);
  }
}

function eventSubject({ name, signal, step }: EventWait): string {
  if (signal !== undefined) return `signal ${code(signal)}`;
  return step === undefined ? `event ${code(name)}` : `items of step ${code(step)}`;
}

function workSummary(work: ActivityWait | TaskWait, nowMs: number): string {
  const { state, attempt, maxAttempts, nextTryAt = nowMs, expired, unclaimed, heartbeatAt } = work;
  const name = workName(work);
  const limit = maxAttempts !== undefined && maxAttempts > 1 ? ` of ${maxAttempts}` : '';
  const attempts = `attempt ${attempt}${limit}`;
  if (state === 'running') {
    const beat = heartbeatAt === undefined ? '' : `, heartbeat ${ago(heartbeatAt, nowMs)}`;
    return `Runs ${name}${attempt > 1 ? `: ${attempts}` : ''}${beat}`;
  }
  if (unclaimed === 'noWorker') return `No live worker has ${name}`;
  if (unclaimed === 'paused') return `${name} is paused`;
  if (unclaimed === 'limited') return limitSummary(work, nowMs);
  if (expired !== undefined) return `Lost its worker: ${name} waits for another one`;
  const isDue = nextTryAt <= nowMs;
  if (state === 'retrying') {
    return `Retrying ${name}: ${attempts} ${isDue ? 'is due' : `starts ${inTime(nextTryAt, nowMs)}`}`;
  }
  if (!isDue) return `Starts ${name} ${inTime(nextTryAt, nowMs)}`;
  const free = unclaimed === 'busy' ? 'free ' : '';
  return `Waits for a ${free}worker to run ${name}${dueFor(nowMs - nextTryAt)}`;
}

function limitSummary(work: ActivityWait | TaskWait, nowMs: number): string {
  const { limit, key } = work;
  const name = workName(work);
  if (limit?.by === 'rate') {
    const next = limit.nextAt === undefined ? '' : `, next start ${inTime(limit.nextAt, nowMs)}`;
    return `Waits for the rate of ${name}${next}`;
  }
  const scope = limit?.by === 'perKey' && key !== undefined ? ` for key ${code(key)}` : '';
  return `Waits for a place of ${name}${scope}: ${limit?.running ?? 0} of ${limit?.max ?? 0} in use`;
}

function workName(work: ActivityWait | TaskWait): string {
  const step = work.kind === 'activity' ? work.step : undefined;
  const { name } = codeOf(work);
  if (work.kind === 'onFail') return `the failure handler of ${code(name)}`;
  return step === undefined ? code(name) : `step ${code(step)}`;
}

function cancelSummary(
  { phase, cleanupUntil }: CancelWait,
  operations: readonly Operation[],
  nowMs: number,
): string {
  const [first] = operations;
  if (phase === 'handlers') {
    const running = operations.find(isWork);
    return running === undefined
      ? 'Canceling: waits for running work to stop'
      : `Canceling: waits for ${workName(running)} to stop`;
  }
  if (cleanupUntil !== undefined && cleanupUntil <= nowMs) {
    return 'Canceling: its clean-up limit has expired';
  }
  const left = cleanupUntil === undefined ? '' : `, ${formatMs(cleanupUntil - nowMs)} left`;
  const doing = first === undefined ? 'cleans up' : lowerFirst(summaryOf(first, nowMs));
  return `Canceling: ${doing}${left}`;
}

function isWork(wait: Operation): wait is ActivityWait | TaskWait {
  return wait.kind === 'activity' || wait.kind === 'onFail' || wait.kind === 'task';
}

function blockedSummary({ code: errorCode, recorded, issued, eventId, reason }: BlockedWait) {
  if (eventId === undefined) return `Blocked (${errorCode}): ${clip(reason)}`;
  return `Blocked: recorded ${eventText(recorded)}, issued ${eventText(issued)}`;
}

function eventText(event: BlockedWait['recorded']): string {
  if (event === undefined) return 'nothing';
  return event.name === undefined ? clip(event.text) : code(event.name);
}

function pausedSummary({ target, name, reason, actor }: PausedWait): string {
  const by = actor === undefined ? '' : ` by ${code(actor)}`;
  const why = reason === undefined ? '' : `: ${clip(reason)}`;
  return target === 'instance'
    ? `Paused${by}${why}`
    : `Paused${by} with ${target} ${code(name ?? '')}${why}`;
}

function workerSummary({ reason, name, version, dueAt, expired }: WorkerWait, nowMs: number) {
  if (reason === 'noWorker') {
    return `No live worker has ${code(name)}${version === undefined ? '' : ` version ${code(version)}`}`;
  }
  if (expired !== undefined) return 'Lost its worker: its turn waits for another one';
  return `Waits for a worker${dueFor(nowMs - dueAt)}`;
}

function dueFor(ms: number): string {
  return ms < 1_000 ? '' : `, due for ${formatMs(ms)}`;
}

function endedSummary({ status, failure, reason, actor, leaked }: EndedWait): string {
  const by = actor === undefined ? '' : ` by ${code(actor)}`;
  const name = `${status.slice(0, 1).toUpperCase()}${status.slice(1)}${by}`;
  const how = { skipped: 'its condition did not hold', expired: 'no worker claimed it in time' };
  const known = status === 'skipped' || status === 'expired' ? how[status] : undefined;
  const failed =
    failure &&
    `${clip(failure.message)}${failure.code === undefined ? '' : ` (${code(failure.code)})`}`;
  const cause = failed ?? (reason === undefined ? known : clip(reason));
  const handlers =
    leaked === undefined ? '' : `; ${leaked} ${leaked === 1 ? 'handler' : 'handlers'} leaked`;
  return `${name}${cause === undefined ? '' : `: ${cause}`}${handlers}`;
}

function on(worker: string | undefined): string {
  return worker === undefined ? '' : ` on ${code(worker)}`;
}

function fires({ fireAt }: TimerWait, nowMs: number): string {
  return fireAt > nowMs ? `fires ${inTime(fireAt, nowMs)}` : 'is due';
}

function inTime(at: number, nowMs: number): string {
  return at > nowMs ? `in ${formatMs(at - nowMs)}` : 'now';
}

function ago(at: number, nowMs: number): string {
  return at >= nowMs ? 'now' : `${formatMs(nowMs - at)} ago`;
}

/** Marks a name as code. A backtick of the name would end the mark. */
function code(name: string): string {
  return `\`${name.replaceAll('`', "'")}\``;
}

function lowerFirst(text: string): string {
  return `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`;
}

/** Cuts a text of a user to one line without a full stop. */
function clip(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim().replace(/\.$/, '');
  return line.length <= maxTextLength ? line : `${line.slice(0, maxTextLength).toWellFormed()}…`;
}
