import type { FailureSummary, PendingWork } from './inspect-instance.ts';
import type {
  BlockedWait,
  CancelWait,
  ChildWait,
  EndedWait,
  JobWait,
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
  for (const wait of waits) {
    switch (wait.kind) {
      case 'ended':
        sentences.push(...endedText(wait, nowMs));
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
      case 'job':
        notes.push(jobText(wait, nowMs));
        break;
      default:
        clauses.push(clauseOf(wait, nowMs));
    }
  }
  if (clauses.length > 0) sentences.push(join(clauses));
  if (sentences.length === 0) sentences.push('Waiting for nothing that the store shows.');
  if (incomplete === true)
    notes.push('Its history is too long or damaged, so some waits may be missing.');
  return [...sentences, ...notes].join(' ');
}

function join(clauses: readonly Clause[]): string {
  const [only, ...others] = clauses;
  if (only !== undefined && others.length === 0) {
    const state = only.state === undefined ? '.' : `: ${end(only.state)}`;
    return [`Waiting for ${only.subject}${state}`, ...(only.more ? [only.more] : [])].join(' ');
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

function clauseOf(
  wait: Exclude<
    Wait,
    { kind: 'ended' | 'cancel' | 'blocked' | 'turn' | 'worker' | 'delay' | 'job' }
  >,
  nowMs: number,
): Clause {
  switch (wait.kind) {
    case 'timer':
      return {
        subject: 'a timer',
        state:
          wait.fireAt > nowMs
            ? `fires ${inTime(wait.fireAt, nowMs)}`
            : `was due ${ago(wait.fireAt, nowMs)}`,
      };
    case 'event':
      return { subject: `event ${code(wait.name)}` };
    case 'child':
      return childClause(wait);
    case 'detached':
      return { subject: `the start of detached instance ${code(wait.id)}` };
    case 'task':
      return { ...workClause(wait, nowMs), ...taskNote(wait, nowMs) };
    case 'activity':
    case 'onFail':
      return workClause(wait, nowMs);
  }
}

function workClause(work: PendingWork, nowMs: number): Clause {
  const what = { activity: 'activity', task: 'task', onFail: 'the failure handler of task' };
  const { lastFailure } = work;
  return {
    subject: `${what[work.kind]} ${code(work.name)}`,
    state: workState(work, nowMs),
    more: lastFailure && `Last error: ${end(failureText(lastFailure))}`,
  };
}

function workState(work: PendingWork, nowMs: number): string {
  const { state, attempt, maxAttempts, nextTryAt = nowMs, expired } = work;
  const limit = maxAttempts !== undefined && maxAttempts > 1 ? ` of ${maxAttempts}` : '';
  const attempts = `attempt ${attempt}${limit}`;
  if (state === 'running') return runningState(work, attempts, nowMs);
  if (expired !== undefined) {
    return `the lease of ${workerName(expired.worker)} expired ${ago(expired.at, nowMs)}, and ${attempts} waits for another worker`;
  }
  if (nextTryAt > nowMs) return `${attempts} starts ${inTime(nextTryAt, nowMs)}`;
  const waited = nowMs - nextTryAt;
  return `${attempts} has been due for ${formatMs(waited)}, and no worker has claimed it`;
}

function runningState(work: PendingWork, attempts: string, nowMs: number): string {
  const { worker, claimedAt, heartbeatAt, cancel, pointOfNoReturn } = work;
  const since = claimedAt === undefined ? '' : ` for ${formatMs(nowMs - claimedAt)}`;
  const beat = heartbeatAt === undefined ? '' : `, last heartbeat ${ago(heartbeatAt, nowMs)}`;
  const running = `${attempts} has been running on ${workerName(worker)}${since}${beat}`;
  if (pointOfNoReturn === true) return `${running}, past its point of no return`;
  return cancel === undefined ? running : `${running}, asked to stop`;
}

function taskNote({ expiresAt, priority, state }: TaskWait, nowMs: number): Partial<Clause> {
  if (state !== 'queued') return {};
  const notes = [
    ...(priority === 0 ? [] : [`Its priority is ${priority}.`]),
    ...(expiresAt === undefined ? [] : [`Unclaimed, it expires ${inTime(expiresAt, nowMs)}.`]),
  ];
  return notes.length === 0 ? {} : { more: notes.join(' ') };
}

function childClause({ id, name, status, isStopping, text }: ChildWait): Clause {
  const subject = `child ${code(id)} of ${code(name)}${isStopping === true ? ' to stop' : ''}`;
  if (status === undefined) return { subject, state: 'it does not exist yet' };
  if (text === undefined) return { subject, state: status };
  return { subject, state: status, more: `Child: ${text}` };
}

function turnText({ worker, claimedAt, lockedUntil }: TurnWait, nowMs: number): string {
  const since = claimedAt === undefined ? '' : ` for ${formatMs(nowMs - claimedAt)}`;
  return `A turn has been running on ${workerName(worker)}${since}; its lease ends ${inTime(lockedUntil, nowMs)}.`;
}

function workerText({ name, version, dueAt, expired, claims }: WorkerWait, nowMs: number): string {
  const needed = `orchestration ${code(name)}${version === undefined ? '' : ` version ${code(version)}`}`;
  if (expired !== undefined) {
    return `The lease of ${workerName(expired.worker)} expired ${ago(expired.at, nowMs)} during a turn (claim ${claims}). Waiting for another worker with ${needed}.`;
  }
  return `Waiting for a worker with ${needed}: due for ${formatMs(nowMs - dueAt)}.`;
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
    ...(onFail === undefined ? [] : [`Its failure handler: ${onFail}.`]),
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
