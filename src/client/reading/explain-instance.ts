import { decodeEvent } from '../../model/event.ts';
import { notFound } from '../../model/failures/errors.ts';
import { decodeFailure } from '../../model/failures/failure.ts';
import { isTerminal, type TerminalStatus } from '../../model/status.ts';
import type { TurnState } from '../../providers/contract/inspection.ts';
import type { InstanceRecord } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { summarizeFailure, toPendingWork, type PendingWork } from './inspect-instance.ts';
import { toBlockedInfo } from './instance-info.ts';
import { OpenOperations, type OpenOperation } from './open-operations.ts';
import type { Wait, Why } from './why.ts';
import { explainWaits } from './why-text.ts';

export interface ExplainParams {
  readonly provider: Provider;
}

// Events of a history that are read: the last ones, because most open operations are recent.
const maxEvents = 5_000;
const pageEvents = 1_000;
const maxPageBytes = 8 * 1024 * 1024;
// Activities that are listed.
const maxPending = 100;
// Children whose own waits are read, one level deep.
const maxChildren = 3;

/** Explains the state of an instance from the store alone. Throws `INSTANCE_NOT_FOUND`. */
export async function explainInstance(params: ExplainParams, id: string): Promise<Why> {
  return explain(params, id, maxChildren);
}

async function explain(params: ExplainParams, id: string, childLimit: number): Promise<Why> {
  const { provider } = params;
  const [[record], turn, details] = await Promise.all([
    provider.getInstances([id]),
    provider.inspectTurn(id),
    provider.inspectInstance({ instanceId: id, maxPending }),
  ]);
  if (record === undefined || turn === undefined) throw notFound(id);
  const { status } = record;
  const pending = (details?.pending ?? []).map(toPendingWork);
  const { nowMs } = turn;
  if (isTerminal(status)) {
    const waits = [...endedWaits(record, status, pending), ...jobWaits(turn)];
    return { id, status, waits, text: explainWaits(waits, { nowMs }) };
  }
  const { open, incomplete } = await openOperations(params, record, turn);
  const waits = [
    ...stateWaits(record, turn),
    ...workWaits(record, pending),
    ...(await operationWaits(params, open, pending, childLimit)),
    ...jobWaits(turn),
  ];
  const text = explainWaits(waits, { nowMs, incomplete });
  return { id, status, waits, text, ...(incomplete && { incomplete }) };
}

/** Why no turn runs: the request to cancel, a block, a worker that is missing, or one that runs it. */
function stateWaits(record: InstanceRecord, turn: TurnState): readonly Wait[] {
  const { cancel, blocked, name, version, status } = record;
  const { held, heldUntil, dueAt, nowMs, claims } = turn;
  const waits: Wait[] = [];
  if (status === 'canceling' && cancel !== null) {
    const cleanup = turn.cleanupAt === null ? {} : { cleanupUntil: turn.cleanupAt };
    const phase = turn.isClosing || record.kind === 'task' ? 'handlers' : 'cleanup';
    waits.push({ kind: 'cancel', ...cancel, phase, ...cleanup });
  }
  if (blocked !== null) {
    const retry = heldUntil === null ? {} : { retryAt: heldUntil };
    waits.push({ kind: 'blocked', ...toBlockedInfo(blocked), ...retry });
  }
  if (held !== null) {
    const { worker, claimedAt, lockedUntil } = held;
    waits.push({
      kind: 'turn',
      ...(worker !== null && { worker }),
      ...(claimedAt !== null && { claimedAt }),
      lockedUntil,
    });
  } else if (blocked !== null || record.kind === 'task') return waits;
  else if (heldUntil !== null) waits.push({ kind: 'delay', until: heldUntil });
  else if (dueAt !== null && dueAt <= nowMs) {
    const { expired } = turn;
    const { worker = null, at = 0 } = expired ?? {};
    waits.push({
      kind: 'worker',
      name,
      ...(version !== null && { version }),
      dueAt,
      claims,
      ...(expired !== null && { expired: { at, ...(worker !== null && { worker }) } }),
    });
  }
  return waits;
}

function workWaits(record: InstanceRecord, pending: readonly PendingWork[]): readonly Wait[] {
  const { task } = record;
  return pending.map((work): Wait => {
    if (work.kind !== 'task') return { ...work, kind: work.kind };
    return {
      ...work,
      kind: 'task',
      priority: task?.priority ?? 0,
      ...(task?.expiresAt != null && work.state === 'queued' && { expiresAt: task.expiresAt }),
      ...(task?.dedupeKey != null && { dedupeKey: task.dedupeKey }),
    };
  });
}

async function operationWaits(
  params: ExplainParams,
  open: readonly OpenOperation[],
  pending: readonly PendingWork[],
  childLimit: number,
): Promise<readonly Wait[]> {
  const listed = new Set(pending.map(({ operation }) => operation));
  const childIds = open.flatMap(({ kind, childId }) =>
    kind === 'child' && childId !== undefined ? [childId] : [],
  );
  const shown = childIds.slice(0, childLimit);
  const children = new Map(
    await Promise.all(shown.map(async (id) => [id, await tryExplain(params, id)] as const)),
  );
  return open.flatMap((one): Wait[] => {
    const { kind, operation, name = '', childId: id = '', fireAt = 0, isStopping } = one;
    switch (kind) {
      case 'timer':
        return [{ kind, operation, fireAt }];
      case 'event':
        return [{ kind, operation, name }];
      case 'detached':
        return [{ kind, operation, name, id }];
      case 'child': {
        const child = children.get(id);
        return [
          {
            kind,
            operation,
            name,
            id,
            ...(child !== undefined && { status: child.status, text: child.text }),
            ...(isStopping === true && { isStopping }),
          },
        ];
      }
      case 'activity': {
        // Beyond the listed work: its state is not read. Its outcome may wait for the next turn.
        const isBeyond = pending.length === maxPending && !listed.has(operation);
        return isBeyond ? [{ kind, operation, name, state: 'queued', attempt: 1 }] : [];
      }
    }
  });
}

/** Explains a child, without its children. Resolves with `undefined` if it does not exist. */
async function tryExplain(params: ExplainParams, id: string): Promise<Why | undefined> {
  const [record] = await params.provider.getInstances([id]);
  return record === undefined ? undefined : explain(params, id, 0).catch(() => undefined);
}

/** Reads the operations without an outcome from the end of the history. */
async function openOperations(
  { provider }: ExplainParams,
  { instanceId, executionId, kind }: InstanceRecord,
  { historyLength, isClosing }: TurnState,
): Promise<{ readonly open: readonly OpenOperation[]; readonly incomplete: boolean }> {
  // An execution that has ended waits for its work only.
  if (kind === 'task' || isClosing) return { open: [], incomplete: false };
  const first = Math.max(0, historyLength - maxEvents);
  const operations = new OpenOperations();
  let incomplete = first > 0;
  let after = first;
  while (after < historyLength) {
    const page = { instanceId, executionId, after, limit: pageEvents, maxBytes: maxPageBytes };
    const read = await provider.readInstanceHistory(page);
    const events = read.filter(({ withheld }) => withheld !== true);
    if (events.length === 0) break;
    for (const stored of events) {
      try {
        operations.add(decodeEvent(stored));
      } catch {
        incomplete = true;
      }
    }
    after += events.length;
  }
  return { open: operations.all, incomplete };
}

function jobWaits({ job }: TurnState): readonly Wait[] {
  if (job === null) return [];
  const { abandonedAt, ...session } = job;
  return [{ kind: 'job', ...session, ...(abandonedAt !== null && { abandonedAt }) }];
}

function endedWaits(
  record: InstanceRecord,
  status: TerminalStatus,
  pending: readonly PendingWork[],
): readonly Wait[] {
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
    // Work that has not stopped, and the failure handler of a task.
    ...workWaits(record, pending),
  ];
}
