import { flowVersion } from '../../model/definition.ts';
import { decodeEvent } from '../../model/event.ts';
import { notFound } from '../../model/failures/errors.ts';
import { decodeFailure } from '../../model/failures/failure.ts';
import { isTerminal, type TerminalStatus } from '../../model/status.ts';
import { codeOf } from '../../model/task-call.ts';
import type { TurnState } from '../../providers/contract/inspection.ts';
import type { InstanceRecord } from '../../providers/contract/instances.ts';
import type { PausedDefinition } from '../../providers/contract/pausing.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { findChildIds } from '../reading/child-ids.ts';
import {
  ExplainContext,
  nearestVersion,
  unclaimedReason,
  type ExplainParams,
} from './explain-context.ts';
import { flowEventOf, stepOfActivity } from './flow-operations.ts';
import {
  summarizeFailure,
  toPendingWork,
  withAttemptLimits,
  type PendingWork,
} from '../reading/inspect-instance.ts';
import { toBlockedInfo, toPauseInfo } from '../reading/instance-info.ts';
import { OpenOperations, type OpenOperation, type OpenUpdate } from './open-operations.ts';
import type { ActivityWait, PausedWait, TaskWait, Wait, Why } from './why.ts';
import { summarizeWaits } from './why-summary.ts';
import { explainWaits } from './why-text.ts';

// Events of a history that are read: the last ones, because most open operations are recent.
const maxEvents = 5_000;
const pageEvents = 1_000;
const maxPageBytes = 8 * 1024 * 1024;
// Waits that are listed, and activities that are read.
const maxWaits = 100;
// Children whose own waits are read, one level deep.
const maxChildren = 3;

/** Explains the state of an instance from the store alone. Throws `INSTANCE_NOT_FOUND`. */
export async function explainInstance(params: ExplainParams, id: string): Promise<Why> {
  return explain(new ExplainContext(params), id, maxChildren);
}

async function explain(context: ExplainContext, id: string, childLimit: number): Promise<Why> {
  const { provider } = context;
  const [[record], turn, details] = await Promise.all([
    provider.getInstances([id]),
    provider.inspectTurn(id),
    provider.inspectInstance({ instanceId: id, maxPending: maxWaits }),
  ]);
  if (record === undefined || turn === undefined) throw notFound(id);
  const { status } = record;
  const pending = await withAttemptLimits((details?.pending ?? []).map(toPendingWork), () =>
    context.liveWorkers(),
  );
  const { nowMs } = turn;
  const { open, updates, incomplete } = isTerminal(status)
    ? { open: [], updates: [], incomplete: false }
    : await openOperations(context, record, turn);
  const found = { record, turn, pending, open, updates };
  const { state, operations, job } = await findWaits(context, found, childLimit);
  const listed = operations.slice(0, Math.max(0, maxWaits - state.length - job.length));
  const all = [...state, ...operations, ...job];
  return {
    id,
    status,
    text: explainWaits(all, { nowMs, incomplete }),
    short: summarizeWaits(all, { nowMs, incomplete }),
    waits: [...state, ...listed, ...job],
    more: operations.length - listed.length,
    ...(incomplete && { incomplete }),
  };
}

/** What the store has about an instance. */
export interface InstanceState {
  readonly record: InstanceRecord;
  readonly turn: TurnState;
  readonly pending: readonly PendingWork[];
  readonly open: readonly OpenOperation[];
  readonly updates: readonly OpenUpdate[];
}

/** Derives the waits of an instance. Reads at most `childLimit` of its children. */
export async function findWaits(
  context: ExplainContext,
  { record, turn, pending, open, updates }: InstanceState,
  childLimit: number,
): Promise<Record<'state' | 'operations' | 'job', readonly Wait[]>> {
  const { status } = record;
  const { nowMs } = turn;
  const hasEnded = isTerminal(status);
  const paused =
    hasEnded && pending.length === 0
      ? []
      : pausedWaits(record, pending, await context.pausedDefinitions());
  const state = [
    ...(hasEnded ? endedWaits(record, status) : []),
    ...paused,
    ...(hasEnded ? [] : await stateWaits(context, record, turn, paused)),
  ];
  // Work of an instance that has ended: what has not stopped, and the failure handler of a task.
  const operations = [
    ...(await workWaits(context, record, {
      pending: await withRates(context, pending),
      paused,
      nowMs,
    })),
    ...(await operationWaits(context, record, { open, pending, childLimit })),
    ...updates.map((update): Wait => ({ kind: 'update', ...update })),
  ];
  return { state, operations, job: jobWaits(turn) };
}

/** The pauses of the instance, and of the definitions whose code runs next. */
function pausedWaits(
  { paused, name, status, kind }: InstanceRecord,
  pending: readonly PendingWork[],
  definitions: readonly PausedDefinition[],
): readonly PausedWait[] {
  // A paused orchestration still runs the turns of a cancel.
  const runsTurns = kind === 'orchestration' && status !== 'canceling' && !isTerminal(status);
  const isNeeded = (one: PausedDefinition): boolean =>
    one.kind === 'orchestration'
      ? runsTurns && one.name === name
      : pending.some((work) => work.state !== 'running' && isOf(work, one));
  return [
    ...(paused === null
      ? []
      : [{ kind: 'paused', target: 'instance', ...toPauseInfo(paused) } as const]),
    ...definitions.filter(isNeeded).map((one): PausedWait => {
      return { kind: 'paused', target: one.kind, name: one.name, ...toPauseInfo(one) };
    }),
  ];
}

/** Whether work belongs to a definition, as itself or as a call of a task. */
function isOf(
  work: PendingWork,
  { kind, name }: { readonly kind: string; readonly name: string },
): boolean {
  const code = codeOf(work);
  return (
    (code.kind === kind && code.name === name) || (kindOf(work) === kind && work.name === name)
  );
}

/** The kind of the definition that work needs. */
function kindOf({ kind }: PendingWork): 'activity' | 'task' {
  return kind === 'activity' ? 'activity' : 'task';
}

/** Why no turn runs: the request to cancel, a block, a worker that is missing, or one that runs it. */
async function stateWaits(
  context: ExplainContext,
  record: InstanceRecord,
  turn: TurnState,
  paused: readonly PausedWait[],
): Promise<readonly Wait[]> {
  const { cancel, blocked, status } = record;
  const { held, heldUntil, dueAt, nowMs } = turn;
  const waits: Wait[] = [];
  if (turn.debounce !== null && turn.debounce.startsAt > nowMs) {
    waits.push({ kind: 'debounced', ...turn.debounce });
  }
  if (status === 'canceling' && cancel !== null) {
    const cleanup = turn.cleanupAt === null ? {} : { cleanupUntil: turn.cleanupAt };
    const phase = turn.isClosing || record.kind === 'task' ? 'handlers' : 'cleanup';
    waits.push({ kind: 'cancel', ...cancel, phase, ...cleanup });
  }
  if (blocked !== null) {
    const retry = heldUntil === null ? {} : { retryAt: heldUntil };
    waits.push({ kind: 'blocked', ...toBlockedInfo(blocked), ...retry });
  }
  const runsNoTurn = paused.some(
    ({ target }) => target === 'instance' || target === 'orchestration',
  );
  if (held !== null) {
    const { worker, claimedAt, lockedUntil } = held;
    waits.push({
      kind: 'turn',
      ...(worker !== null && { worker }),
      ...(claimedAt !== null && { claimedAt }),
      lockedUntil,
    });
  } else if (blocked !== null || record.kind === 'task' || runsNoTurn) return waits;
  else if (turn.waitingKey !== null) waits.push(await placeWait(context, record, turn.waitingKey));
  else if (heldUntil !== null) waits.push({ kind: 'delay', until: heldUntil });
  else if (dueAt !== null && dueAt <= nowMs) {
    waits.push(await workerWait(context, record, { ...turn, dueAt }));
  } else if (dueAt !== null && status === 'pending' && turn.debounce === null) {
    waits.push(await startWait(context, record, dueAt));
  }
  return waits;
}

async function startWait(
  context: ExplainContext,
  { name, version }: InstanceRecord,
  startsAt: number,
): Promise<Wait> {
  const workers = await context.liveWorkers();
  const reason = unclaimedReason(workers, { kind: 'orchestration', name, version });
  return {
    kind: 'start',
    startsAt,
    ...(reason === 'noWorker' && { unclaimed: reason }),
    name,
    ...(version !== null && { version }),
  };
}

async function placeWait(
  context: ExplainContext,
  { name }: InstanceRecord,
  key: string,
): Promise<Wait> {
  const limits = await context.limitsOf('orchestration', name);
  const { global, perKey } = limits?.effective ?? {};
  return {
    kind: 'place',
    name,
    ...(key !== '' && { key }),
    ...(global !== undefined && { global }),
    ...(perKey !== undefined && { perKey }),
    running: limits?.running ?? 0,
  };
}

async function workerWait(
  context: ExplainContext,
  { name, version }: InstanceRecord,
  { dueAt, claims, expired, cleanupAt, nowMs }: TurnState & { readonly dueAt: number },
): Promise<Wait> {
  const workers = await context.liveWorkers();
  // Any worker may end an instance whose clean-up limit has expired.
  const needsCode = cleanupAt === null || cleanupAt > nowMs;
  const canClaim = needsCode
    ? unclaimedReason(workers, { kind: 'orchestration', name, version }) === 'queued'
    : workers.length > 0;
  const nearest = canClaim || version === null ? undefined : nearestVersion(workers, name, version);
  const { worker = null, at = 0 } = expired ?? {};
  return {
    kind: 'worker',
    reason: canClaim ? 'queued' : 'noWorker',
    name,
    ...(version !== null && { version }),
    ...(nearest !== undefined && { nearestVersion: nearest }),
    dueAt,
    claims,
    ...(expired !== null && { expired: { at, ...(worker !== null && { worker }) } }),
  };
}

/** Adds the periods of the rates that hold work back. */
function withRates(
  context: ExplainContext,
  pending: readonly PendingWork[],
): Promise<readonly PendingWork[]> {
  return Promise.all(
    pending.map(async (work) => {
      if (work.limit?.by !== 'rate') return work;
      const { kind, name } = codeOf(work);
      const rate = await context.rateOf(kind, name);
      if (rate === undefined) return work;
      const { perMs, perKey } = rate;
      return { ...work, limit: { ...work.limit, perMs, perKey } };
    }),
  );
}

async function workWaits(
  context: ExplainContext,
  record: InstanceRecord,
  {
    pending,
    paused,
    nowMs,
  }: {
    readonly pending: readonly PendingWork[];
    readonly paused: readonly PausedWait[];
    readonly nowMs: number;
  },
): Promise<readonly Wait[]> {
  const { task } = record;
  const isIdle = pending.some(({ state }) => state !== 'running');
  const workers = isIdle ? await context.liveWorkers() : [];
  const unclaimedOf = (work: PendingWork): Pick<ActivityWait | TaskWait, 'unclaimed'> => {
    if (work.state === 'running') return {};
    const kind = kindOf(work);
    const isPaused = paused.some(
      ({ target, name = '' }) => target === 'instance' || isOf(work, { kind: target, name }),
    );
    if (isPaused) return { unclaimed: 'paused' };
    const unclaimed = unclaimedReason(workers, { kind, name: work.name, version: null });
    const isDue = (work.nextTryAt ?? nowMs) <= nowMs;
    if (isDue && work.limit !== undefined && unclaimed !== 'noWorker') {
      return { unclaimed: 'limited' };
    }
    return isDue || unclaimed === 'noWorker' ? { unclaimed } : {};
  };
  return pending.map((work): Wait => {
    const unclaimed = unclaimedOf(work);
    if (work.kind !== 'task')
      return { ...work, kind: work.kind, ...unclaimed, ...stepOf(record, work.name) };
    return {
      ...work,
      kind: 'task',
      ...unclaimed,
      priority: task?.priority ?? 0,
      ...(task?.expiresAt != null && work.state === 'queued' && { expiresAt: task.expiresAt }),
      ...(task?.dedupeKey != null && { dedupeKey: task.dedupeKey }),
    };
  });
}

/** The step of a flow whose handler an activity runs. */
function stepOf(record: InstanceRecord, activity: string): { readonly step?: string } {
  const step = isFlow(record) ? stepOfActivity(record.name, activity) : undefined;
  return step === undefined ? {} : { step };
}

function isFlow({ kind, version }: InstanceRecord): boolean {
  return kind === 'orchestration' && version === flowVersion;
}

async function operationWaits(
  context: ExplainContext,
  record: InstanceRecord,
  {
    open,
    pending,
    childLimit,
  }: {
    readonly open: readonly OpenOperation[];
    readonly pending: readonly PendingWork[];
    readonly childLimit: number;
  },
): Promise<readonly Wait[]> {
  const listed = new Set(pending.map(({ operation }) => operation));
  const childIds = open.flatMap(({ kind, childId, name = '' }) =>
    kind === 'child' && childId !== undefined && context.maySee(name) ? [childId] : [],
  );
  const shown = childIds.slice(0, childLimit);
  const children = new Map(
    await Promise.all(shown.map(async (id) => [id, await tryExplain(context, id)] as const)),
  );
  return open.flatMap((one): Wait[] => {
    const { kind, operation, name = '', childId: id = '', fireAt = 0, isStopping } = one;
    const shownName = context.maySee(name) ? { name } : {};
    switch (kind) {
      case 'timer':
        return [{ kind, operation, fireAt }];
      case 'step':
        if (one.retried === undefined) return [];
        return [
          {
            kind: 'timer',
            operation,
            fireAt: one.retried.retryAt,
            step: name,
            lastFailure: summarizeFailure(one.retried.failure),
          },
        ];
      case 'awakeable':
        return [{ kind, operation }];
      case 'event':
        return [{ kind, operation, name, ...(isFlow(record) && flowEventOf(name)) }];
      case 'detached':
        return [{ kind, operation, ...shownName, id }];
      case 'child': {
        const child = children.get(id);
        return [
          {
            kind,
            operation,
            ...shownName,
            id,
            ...(child !== undefined && { status: child.status, text: child.text }),
            ...(isStopping === true && { isStopping }),
          },
        ];
      }
      case 'activity': {
        // Beyond the listed work: its state is not read. Its outcome may wait for the next turn.
        const isBeyond = pending.length === maxWaits && !listed.has(operation);
        const step = stepOf(record, name);
        return isBeyond ? [{ kind, operation, name, state: 'queued', attempt: 1, ...step }] : [];
      }
    }
  });
}

/** Explains a child, without its children. Resolves with `undefined` if it does not exist. */
async function tryExplain(context: ExplainContext, id: string): Promise<Why | undefined> {
  const [record] = await context.provider.getInstances([id]);
  // The id may belong to another instance than the child.
  if (record === undefined || !context.maySee(record.name)) return undefined;
  return explain(context, id, 0).catch(() => undefined);
}

/** Reads the operations without an outcome from the end of the history. */
async function openOperations(
  { provider }: ExplainContext,
  { instanceId, executionId, kind }: InstanceRecord,
  { historyLength, isClosing }: TurnState,
): Promise<{
  readonly open: readonly OpenOperation[];
  readonly updates: readonly OpenUpdate[];
  readonly incomplete: boolean;
}> {
  // An execution that has ended waits for its work only.
  if (kind === 'task' || isClosing) return { open: [], updates: [], incomplete: false };
  const first = Math.max(0, historyLength - maxEvents);
  let incomplete = first > 0;
  const operations = new OpenOperations({ isPartial: incomplete });
  let after = first;
  while (after < historyLength) {
    const page = { instanceId, executionId, after, limit: pageEvents, maxBytes: maxPageBytes };
    const read = await provider.readInstanceHistory(page);
    const events = read.filter(({ withheld }) => withheld !== true);
    if (events.length === 0) break;
    for (const [index, stored] of events.entries()) {
      try {
        operations.add(decodeEvent(stored), after + index + 1);
      } catch {
        incomplete = true;
      }
    }
    after += events.length;
  }
  return {
    open: await withChildIds(provider, { instanceId, executionId }, operations),
    updates: operations.updates,
    incomplete,
  };
}

/** Replaces the recorded ids of children that a retry or a fork has started again. */
async function withChildIds(
  provider: Provider,
  execution: { readonly instanceId: string; readonly executionId: number },
  { all }: OpenOperations,
): Promise<readonly OpenOperation[]> {
  const children = all.flatMap(({ kind, operation, childId, issuedAt }) =>
    kind === 'child' && childId !== undefined && issuedAt !== undefined
      ? [{ operation, childId, issuedAt }]
      : [],
  );
  const ids = await findChildIds(provider, execution, children);
  return all.map((one) => {
    const childId = ids.get(one.operation);
    return childId === undefined ? one : { ...one, childId };
  });
}

function jobWaits({ job }: TurnState): readonly Wait[] {
  if (job === null) return [];
  const { abandonedAt, ...session } = job;
  return [{ kind: 'job', ...session, ...(abandonedAt !== null && { abandonedAt }) }];
}

function endedWaits(record: InstanceRecord, status: TerminalStatus): readonly Wait[] {
  const { endedAt, failure, cancel, terminated, cleanupSkipped, leaked, task } = record;
  const stop = status === 'terminated' ? terminated : status === 'canceled' ? cancel : null;
  return [
    {
      kind: 'ended',
      status,
      at: endedAt ?? record.createdAt,
      ...(status === 'failed' && { failure: summarizeFailure(decodeFailure(failure)) }),
      ...(stop !== null && { reason: stop.reason }),
      ...(stop?.actor != null && { actor: stop.actor }),
      ...(cleanupSkipped && { cleanupSkipped }),
      ...(leaked > 0 && { leaked }),
      ...(task?.onFail != null && { onFail: task.onFail }),
    },
  ];
}
