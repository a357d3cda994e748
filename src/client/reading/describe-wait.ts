import { systemClock } from '../../model/clock.ts';
import { isTerminal } from '../../model/status.ts';
import type { ClientBackend } from '../client-backend.ts';
import type { HistoryPage } from './history.ts';
import { OpenOperations, type OpenOperation } from './open-operations.ts';
import type { PendingWork } from './inspect-instance.ts';

type WaitReader = Pick<ClientBackend, 'get' | 'history'>;

// A longer history is not read for a message.
const maxPages = 10;
const pageLimit = 200;
const maxNamed = 3;

/**
 * Describes what an instance waits for, as part of a sentence. Resolves with `undefined` if that is unknown, fails or
 * takes longer than `timeoutMs`: it must not delay an error.
 */
export async function describeWait(
  reader: WaitReader,
  id: string,
  { nowMs, timeoutMs }: { readonly nowMs: number; readonly timeoutMs: number },
): Promise<string | undefined> {
  const late = Promise.withResolvers<undefined>();
  const cancelTimer = systemClock.setTimer(timeoutMs, () => late.resolve(undefined));
  const described = describe(reader, id, nowMs).catch(() => undefined);
  const text = await Promise.race([described, late.promise]);
  cancelTimer();
  return text;
}

async function describe(
  reader: WaitReader,
  id: string,
  nowMs: number,
): Promise<string | undefined> {
  const info = await reader.get(id);
  if (info === undefined || isTerminal(info.status)) return undefined;
  if (info.blocked !== undefined) return `blocked: ${info.blocked.reason}`;
  const pending = info.pending ?? [];
  if (info.kind === 'orchestration' && info.status === 'pending')
    return `waiting for a worker that has orchestration ${JSON.stringify(info.name)}`;
  const open = info.kind === 'orchestration' ? await readOpen(reader, id) : [];
  const known = new Map(pending.map((work) => [work.operation, work]));
  const others = open.filter(({ kind }) => kind !== 'activity');
  const parts = [
    ...pending.map((work) => describeWork(work, nowMs)),
    // Activities beyond the 20 pending entries of the instance.
    ...open.flatMap(({ kind, operation, name }) =>
      kind === 'activity' && !known.has(operation) ? `activity ${JSON.stringify(name)}` : [],
    ),
    ...others.map((one) => describeOperation(one, nowMs)),
  ];
  if (parts.length === 0) return undefined;
  const more = parts.length - maxNamed;
  const named = parts.slice(0, maxNamed).join(', ');
  return `waiting for ${named}${more > 0 ? ` and ${more} more` : ''}`;
}

async function readOpen(reader: WaitReader, id: string): Promise<readonly OpenOperation[]> {
  const operations = new OpenOperations();
  let after: number | undefined = 0;
  for (let page = 0; page < maxPages && after !== undefined; page += 1) {
    const read: HistoryPage = await reader.history(id, { after, limit: pageLimit });
    for (const { event } of read.items) operations.add(event);
    after = read.nextAfter;
  }
  // A part of a history does not show which operations are open.
  return after === undefined ? operations.all : [];
}

function describeWork(work: PendingWork, nowMs: number): string {
  const { kind, name, state, attempt, maxAttempts, lastFailure, nextTryAt, worker } = work;
  const what = kind === 'onFail' ? 'the failure handler of task' : kind;
  const hasLimit = maxAttempts !== undefined && maxAttempts > 1;
  const details = [
    `attempt ${attempt}${hasLimit ? ` of ${maxAttempts}` : ''}`,
    ...(lastFailure === undefined
      ? []
      : [`last failure: ${JSON.stringify(clip(lastFailure.message))}`]),
    ...(state === 'running' ? [worker === undefined ? 'running' : `running on ${worker}`] : []),
    ...(nextTryAt === undefined ? [] : [describeDue(state, nextTryAt - nowMs)]),
  ];
  return `${what} ${JSON.stringify(name)} (${details.join(', ')})`;
}

function describeDue(state: PendingWork['state'], inMs: number): string {
  if (inMs <= 0) return 'due, not claimed by a worker yet';
  return `${state === 'retrying' ? 'next try' : 'due'} in ${formatMs(inMs)}`;
}

function describeOperation(operation: OpenOperation, nowMs: number): string {
  const { kind, name, childId, fireAt = nowMs, isStopping } = operation;
  const toStop = isStopping === true ? ' to stop' : '';
  if (kind === 'timer') return `a timer that fires in ${formatMs(Math.max(0, fireAt - nowMs))}`;
  if (kind === 'child') return `child ${JSON.stringify(childId)}${toStop}`;
  if (kind === 'detached') return `the detached start of ${JSON.stringify(childId)}`;
  return `${kind} ${JSON.stringify(name)}${toStop}`;
}

/** Formats a duration: `250 ms`, `12 s`, `3 min`, `2 h`, `14 d`. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.ceil(ms)} ms`;
  if (ms < 120_000) return `${Math.round(ms / 100) / 10} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

function clip(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200).toWellFormed()}…`;
}
