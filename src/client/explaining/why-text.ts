import { codeOf } from '../../model/task-call.ts';
import { maxCountedItems } from '../../providers/contract/limits.ts';
import type { FailureSummary, LimitWait, PendingWork } from '../reading/inspect-instance.ts';
import type {
  BlockedWait,
  CancelWait,
  ChildWait,
  DebouncedWait,
  PlaceWait,
  EndedWait,
  EventWait,
  JobWait,
  PausedWait,
  StartWait,
  ActivityWait,
  TaskWait,
  TurnWait,
  Wait,
  WorkerWait,
} from './why.ts';

/** A wait in words: its subject, its state, and a sentence of its own. */
interface Clause {
  readonly subject: string;
  readonly state?: string | undefined;
  readonly more?: string | undefined;
  /** Replaces "Waiting for" and the subject, if it is the only wait. */
  readonly opening?: string | undefined;
}

const maxNamed = 3;

/** Explains waits in plain words. `nowMs` is the store's clock. */
export function explainWaits(
  waits: readonly Wait[],
  { nowMs, incomplete }: { readonly nowMs: number; readonly incomplete?: boolean },
): string {
  const sentences: string[] = [];
  const clauses: Clause[] = [];
  const notes: string[] = [];
  const paused = waits.filter((wait) => wait.kind === 'paused');
  for (const wait of waits) {
    switch (wait.kind) {
      case 'ended':
        sentences.push(...endedText(wait, nowMs));
        break;
      case 'paused':
        if (wait === paused[0]) sentences.push(...pausedText(paused, nowMs));
        break;
      case 'cancel':
        sentences.push(cancelText(wait, nowMs));
        break;
      case 'blocked':
        sentences.push(...blockedText(wait, nowMs));
        break;
      case 'turn':
        sentences.push(turnText(wait, nowMs));
        break;
      case 'worker':
        sentences.push(workerText(wait, nowMs));
        break;
      case 'delay':
        sentences.push(
          `A worker released it: the next claim is possible ${inTime(wait.until, nowMs)}.`,
        );
        break;
      case 'start':
        sentences.push(startText(wait, nowMs));
        break;
      case 'debounced':
        sentences.push(debouncedText(wait, nowMs));
        break;
      case 'place':
        sentences.push(placeText(wait));
        break;
      case 'job':
        notes.push(jobText(wait, nowMs));
        break;
      default:
        clauses.push(clauseOf(wait, nowMs));
    }
  }
  if (clauses.length > 0) sentences.push(join(clauses));
  if (sentences.length === 0) sentences.push('The store has no pending work of it.');
  if (incomplete === true)
    notes.push('Its history is too long or damaged, so some waits may be missing.');
  return [...sentences, ...notes].join(' ');
}

function join(clauses: readonly Clause[]): string {
  const [only, ...others] = clauses;
  if (only !== undefined && others.length === 0) {
    const state = only.state === undefined ? '.' : `: ${end(only.state)}`;
    const opening = only.opening ?? `Waiting for ${only.subject}`;
    return [`${opening}${state}`, ...(only.more ? [only.more] : [])].join(' ');
  }
  const named = clauses
    .slice(0, maxNamed)
    .map(({ subject, state }) => (state === undefined ? subject : `${subject} (${state})`));
  const more = clauses.length - named.length;
  const rest = more > 0 ? `; and ${more} more` : '';
  const first = clauses.find((clause) => clause.more !== undefined)?.more;
  const text = `Waiting for ${clauses.length} operations: ${named.join('; ')}${rest}.`;
  return first === undefined ? text : `${text} ${first}`;
}

function startText({ startsAt, unclaimed, name, version }: StartWait, nowMs: number): string {
  const starts = `Starts ${inTime(startsAt, nowMs)}`;
  if (unclaimed === undefined) return `${starts}: its start was delayed.`;
  const what = `${code(name)}${version === undefined ? '' : ` version ${code(version)}`}`;
  return `${starts}: its start was delayed. No live worker has ${what}: start one before.`;
}

function clauseOf(
  wait: Exclude<
    Wait,
    {
      kind:
        | 'ended'
        | 'paused'
        | 'cancel'
        | 'blocked'
        | 'turn'
        | 'worker'
        | 'delay'
        | 'debounced'
        | 'start'
        | 'place'
        | 'job';
    }
  >,
  nowMs: number,
): Clause {
  switch (wait.kind) {
    case 'timer':
      return {
        subject:
          wait.step === undefined ? 'a timer' : `the next attempt of step ${code(wait.step)}`,
        ...(wait.lastFailure !== undefined && {
          more: sentencesOf(`Last error: ${end(failureText(wait.lastFailure))}`),
        }),
        state:
          wait.fireAt > nowMs
            ? `fires ${inTime(wait.fireAt, nowMs)}`
            : `was due ${ago(wait.fireAt, nowMs)}`,
      };
    case 'event':
      return { subject: eventSubject(wait) };
    case 'awakeable':
      return { subject: 'the answer to an awakeable' };
    case 'update':
      return wait.deferred === true
        ? { subject: `the next execution, which handles update ${code(wait.name)}` }
        : { subject: `the handler of update ${code(wait.name)}` };
    case 'child':
      return childClause(wait);
    case 'detached':
      return { subject: `the start of detached instance ${code(wait.id)}` };
    case 'task': {
      const clause = workClause(wait, nowMs);
      return { ...clause, more: sentencesOf(clause.more, taskNote(wait, nowMs)) };
    }
    case 'activity':
    case 'onFail':
      return workClause(wait, nowMs);
  }
}

function eventSubject({ name, signal, step }: EventWait): string {
  if (signal !== undefined) return `signal ${code(signal)}`;
  return step === undefined ? `event ${code(name)}` : `items of step ${code(step)}`;
}

function workClause(work: ActivityWait | TaskWait, nowMs: number): Clause {
  const { lastFailure, unclaimed } = work;
  const step = work.kind === 'activity' ? work.step : undefined;
  const { kind, name } = codeOf(work);
  const what = work.kind === 'onFail' ? 'the failure handler of task' : kind;
  const subject = step === undefined ? `${what} ${code(name)}` : `step ${code(step)}`;
  const isPlain = work.kind !== 'onFail' && step === undefined;
  return {
    subject,
    state: workState(work, nowMs),
    opening: openingOf(work, nowMs, isPlain ? code(name) : subject),
    more: sentencesOf(
      lastFailure && `Last error: ${end(failureText(lastFailure))}`,
      unclaimed === 'noWorker' ? `Start a worker that registers ${kind} ${code(name)}.` : undefined,
    ),
  };
}

/** Replaces "Waiting for" and the name, if it is the only wait. */
function openingOf(work: ActivityWait | TaskWait, nowMs: number, name: string): string | undefined {
  if (work.unclaimed === 'limited') {
    return work.limit?.by === 'rate' ? 'Waiting for its rate' : 'Waiting for a place';
  }
  return isBetweenAttempts(work, nowMs) ? `Retrying ${name}` : undefined;
}

/** Whether the next attempt waits for its backoff only. */
function isBetweenAttempts(work: PendingWork, nowMs: number): boolean {
  const { state, nextTryAt = nowMs, expired } = work;
  return state === 'retrying' && expired === undefined && nextTryAt > nowMs;
}

function workState(work: ActivityWait | TaskWait, nowMs: number): string {
  const { state, attempt, maxAttempts, nextTryAt = nowMs, expired, unclaimed } = work;
  const limit = maxAttempts !== undefined && maxAttempts > 1 ? ` of ${maxAttempts}` : '';
  const attempts = `attempt ${attempt}${limit}`;
  if (state === 'running') return runningState(work, attempts, nowMs);
  if (unclaimed === 'paused') return `${attempts} is paused`;
  const noWorker = unclaimed === 'noWorker' ? ', and no live worker has its code' : '';
  if (expired !== undefined) {
    const lease = `the lease of ${workerName(expired.worker)} expired ${ago(expired.at, nowMs)}`;
    return `${lease}${noWorker === '' ? `, and ${attempts} waits for another worker` : noWorker}`;
  }
  if (nextTryAt > nowMs) return `${attempts} starts ${inTime(nextTryAt, nowMs)}${noWorker}`;
  const due = `${attempts} has been due for ${formatMs(nowMs - nextTryAt)}`;
  if (unclaimed === 'limited' && work.limit !== undefined) {
    return `${limitText(work, work.limit, nowMs)}. ${capitalized(due)}${aheadText(work.limit, work.key)}`;
  }
  if (unclaimed === 'busy') return `${due}, and all live workers that have its code are busy`;
  return `${due}${noWorker === '' ? ', and no worker has claimed it' : noWorker}`;
}

/** Which limit is reached: `task \`sync\` allows 2 at a time for key \`a\`, both are in use`. */
function limitText(
  work: ActivityWait | TaskWait,
  { by, max, running, nextAt, perMs, perKey }: LimitWait,
  nowMs: number,
): string {
  const { key } = work;
  const { kind, name } = codeOf(work);
  const what = `${kind} ${code(name)}`;
  if (by === 'rate') {
    const next = nextAt === undefined ? '' : `, the next one ${inTime(nextAt, nowMs)}`;
    const per = perMs === undefined ? '' : ` per ${periodText(perMs)}`;
    const scope = perKey === true && key !== undefined ? ` for key ${code(key)}` : '';
    return `${what} starts ${max}${per}${scope}${next}`;
  }
  const scope =
    by === 'global' ? '' : key === undefined ? ' without a key' : ` for key ${code(key)}`;
  const used =
    max === 1
      ? 'it is in use'
      : max === 2 && running === 2
        ? 'both are in use'
        : `${running} are in use`;
  return `${what} allows ${max} at a time${scope}, ${used}`;
}

function aheadText({ ahead, by }: LimitWait, key: string | undefined): string {
  if (ahead === 0) return '';
  const count =
    ahead >= maxCountedItems ? `${maxCountedItems.toLocaleString('en')} or more` : ahead;
  return `, with ${count} ahead of it${by !== 'perKey' && key !== undefined ? ' of the same key' : ''}`;
}

function capitalized(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

function runningState(work: PendingWork, attempts: string, nowMs: number): string {
  const { worker, claimedAt, heartbeatAt, cancel, pointOfNoReturn } = work;
  const since = claimedAt === undefined ? '' : ` for ${formatMs(nowMs - claimedAt)}`;
  const beat = heartbeatAt === undefined ? '' : `, last heartbeat ${ago(heartbeatAt, nowMs)}`;
  const running = `${attempts} has been running on ${workerName(worker)}${since}${beat}`;
  if (pointOfNoReturn === true) return `${running}, past its point of no return`;
  return cancel === undefined ? running : `${running}, asked to stop`;
}

function taskNote({ expiresAt, priority, state }: TaskWait, nowMs: number): string | undefined {
  if (state !== 'queued') return undefined;
  return sentencesOf(
    priority === 0 ? undefined : `Its priority is ${priority}.`,
    expiresAt === undefined ? undefined : `Unclaimed, it expires ${inTime(expiresAt, nowMs)}.`,
  );
}

/** Joins sentences; `undefined` if there are none. */
function sentencesOf(...sentences: readonly (string | undefined)[]): string | undefined {
  const all = sentences.filter((sentence) => sentence !== undefined);
  return all.length === 0 ? undefined : all.join(' ');
}

function childClause({ id, name, status, isStopping, text }: ChildWait): Clause {
  const subject = `child ${code(id)}${name === undefined ? '' : ` of ${code(name)}`}${isStopping === true ? ' to stop' : ''}`;
  if (name === undefined) return { subject };
  if (status === undefined) return { subject, state: 'it does not exist yet' };
  if (text === undefined) return { subject, state: status };
  return { subject, state: status, more: `Child: ${text}` };
}

function turnText({ worker, claimedAt, lockedUntil }: TurnWait, nowMs: number): string {
  const since = claimedAt === undefined ? '' : ` for ${formatMs(nowMs - claimedAt)}`;
  return `A turn has been running on ${workerName(worker)}${since}; its lease ends ${inTime(lockedUntil, nowMs)}.`;
}

function placeText(wait: PlaceWait): string {
  const { global, perKey, running } = wait;
  const isFull = global !== undefined && running >= global;
  if (isFull || perKey === undefined) {
    const most = global === undefined ? '' : ` of ${global}`;
    return `Waits to begin: ${running}${most} instances of ${code(wait.name)} have begun.`;
  }
  const key = wait.key === undefined ? 'without a key' : `of key ${code(wait.key)}`;
  return `Waits to begin: ${code(wait.name)} allows ${perKey} at a time ${key}.`;
}

function debouncedText(wait: DebouncedWait, nowMs: number): string {
  const { key, startsAt } = wait;
  const at = new Date(startsAt).toISOString();
  return `Debounced by key ${code(key)}: starts ${inTime(startsAt, nowMs)}, at ${at} (${movedText(wait)}).`;
}

/** How often a debounced run was moved. */
export function movedText({ moves }: DebouncedWait): string {
  if (moves === 0) return 'not moved';
  return `moved ${moves} ${moves === 1 ? 'time' : 'times'}`;
}

function workerText(wait: WorkerWait, nowMs: number): string {
  const { reason, name, version, nearestVersion, dueAt, expired, claims } = wait;
  const needed = `orchestration ${code(name)}${version === undefined ? '' : ` version ${code(version)}`}`;
  const lease =
    expired &&
    `The lease of ${workerName(expired.worker)} expired ${ago(expired.at, nowMs)} during a turn (claim ${claims}).`;
  if (reason === 'queued') {
    return lease === undefined
      ? `Waiting for a worker with ${needed}: due for ${formatMs(nowMs - dueAt)}.`
      : `${lease} Waiting for another worker with ${needed}.`;
  }
  const nearest =
    nearestVersion && `The nearest version that a live worker has is ${code(nearestVersion)}.`;
  return [
    ...(lease === undefined ? [] : [lease]),
    `No live worker has ${needed}, due for ${formatMs(nowMs - dueAt)}.`,
    ...(nearest === undefined ? [] : [nearest]),
    'Start a worker that registers it.',
  ].join(' ');
}

function pausedText(waits: readonly PausedWait[], nowMs: number): readonly string[] {
  const named = waits.slice(0, maxNamed).map(({ target, name = '', at, reason, actor }) => {
    const by = actor === undefined ? '' : ` by ${code(actor)}`;
    const why = reason === undefined ? '' : `: ${clip(reason)}`;
    const since = `${by} ${ago(at, nowMs)}${why}`;
    if (target === 'instance')
      return `${end(`Paused${since}`)} Resume it with \`client.resume(id)\`.`;
    const definition = `{ kind: ${JSON.stringify(target)}, name: ${JSON.stringify(name)} }`;
    const what = `${target.slice(0, 1).toUpperCase()}${target.slice(1)} ${code(name)}`;
    return `${end(`${what} was paused${since}`)} Resume it with \`client.resume(${definition})\`.`;
  });
  const more = waits.length - named.length;
  return more > 0 ? [...named, `${more} more of its definitions are paused.`] : named;
}

function blockedText(wait: BlockedWait, nowMs: number): readonly string[] {
  const { at, code: errorCode, buildId, recorded, issued, eventId, reason, retryAt } = wait;
  const since = `Blocked for ${formatMs(nowMs - at)}`;
  const why =
    eventId === undefined
      ? clip(reason)
      : `event ${eventId} of its history is ${recorded?.text ?? 'missing'}, but the code issued ${issued?.text ?? 'nothing'}`;
  const retry =
    retryAt === undefined
      ? ''
      : ` Build ${code(buildId)} retries it ${inTime(retryAt, nowMs)}; another build retries it immediately.`;
  return [`${since} (${errorCode}): ${end(why)}${retry}`];
}

function cancelText(wait: CancelWait, nowMs: number): string {
  const { reason, actor, phase, cleanupUntil } = wait;
  const by = actor === null ? '' : ` by ${code(actor)}`;
  const asked = `Canceling${by} (${clip(reason)})`;
  if (phase === 'handlers') return `${asked}: only running work keeps it from its end.`;
  if (cleanupUntil === undefined) return `${asked}: its code cleans up.`;
  return cleanupUntil > nowMs
    ? `${asked}: its code may clean up for ${formatMs(cleanupUntil - nowMs)} more.`
    : `${asked}: its clean-up limit expired ${ago(cleanupUntil, nowMs)}, and any worker may end it.`;
}

function jobText({ sessionId, sessionState, abandonedAt }: JobWait, nowMs: number): string {
  return abandonedAt === undefined
    ? `It is a job of session ${code(sessionId)} (${sessionState}).`
    : `It is a job of session ${code(sessionId)}, abandoned ${ago(abandonedAt, nowMs)}.`;
}

function endedText(wait: EndedWait, nowMs: number): readonly string[] {
  const { status, at, failure, reason, actor, cleanupSkipped, leaked, onFail } = wait;
  const by = actor === undefined ? '' : ` by ${code(actor)}`;
  const name = `${status.slice(0, 1).toUpperCase()}${status.slice(1)}`;
  const cause = failure === undefined ? reason && clip(reason) : failureText(failure);
  const how = { skipped: 'its condition did not hold', expired: 'no worker claimed it in time' };
  const detail = cause ?? (status === 'skipped' || status === 'expired' ? how[status] : undefined);
  return [
    end(`${name}${by} ${ago(at, nowMs)}${detail === undefined ? '' : `: ${detail}`}`),
    ...(cleanupSkipped === true ? ['Its clean-up did not finish within its limit.'] : []),
    ...(leaked === undefined
      ? []
      : [`${leaked} ${leaked === 1 ? 'handler' : 'handlers'} still ran after the grace.`]),
    // Before its end, its work has a sentence of its own.
    ...(onFail === 'completed' || onFail === 'failed' ? [`Its failure handler ${onFail}.`] : []),
  ];
}

function failureText({ message, code: errorCode }: FailureSummary): string {
  return errorCode === undefined ? clip(message) : `${clip(message)} (${errorCode})`;
}

function workerName(worker: string | undefined): string {
  return worker === undefined ? 'a worker' : `worker ${code(worker)}`;
}

function code(name: string): string {
  return `\`${name}\``;
}

const units: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1_000, 'second'],
];

/** Formats the period of a rate: `minute`, `10 s`. */
export function periodText(ms: number): string {
  return units.find(([unit]) => unit === ms)?.[1] ?? formatMs(ms);
}

function inTime(at: number, nowMs: number): string {
  return at > nowMs ? `in ${formatMs(at - nowMs)}` : 'now';
}

function ago(at: number, nowMs: number): string {
  return at >= nowMs ? 'now' : `${formatMs(nowMs - at)} ago`;
}

function end(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

/** Formats a duration: `250 ms`, `12 s`, `3 min`, `2 h`, `14 d`. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.ceil(ms))} ms`;
  if (ms < 120_000) return `${Math.round(ms / 100) / 10} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

function clip(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200).toWellFormed()}…`;
}
