/**
 * One part of a bulk operation.
 *
 * K1. It visits matching instances from the newest to the oldest, in the order of their keys. Each is visited once, and
 *     instances created after the first page are not visited.
 * K2. Each batch is one transaction, which also adds to the audit record of the operation. A prune may need several, and
 *     each retry is one.
 * K3. Repeating a part changes nothing twice: a cancel, termination, deletion or prune finds nothing left to change, as
 *     does a pause or resume. Events and retries are fenced by the progress in the audit record.
 * K4. The id of the audit record depends on the operation, the actor, the action and the filter. A cursor of another
 *     caller, or with another filter, starts a record of its own.
 */
import { createHash } from 'node:crypto';
import { PerdureError, type ErrorCode } from '../model/failures/errors.ts';
import { encodeMessage } from '../model/message.ts';
import { isTerminal, type InstanceStatus } from '../model/status.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type {
  EnqueueResult,
  InstanceRecord,
  ListInstancesResult,
} from '../providers/contract/instances.ts';
import type { AuditEntry, TreeDeletionResult } from '../providers/contract/management.ts';
import type { PauseResult } from '../providers/contract/pausing.ts';
import type { Provider } from '../providers/contract/provider.ts';
import {
  readBulkCursor,
  toBulkCursor,
  type BulkAction,
  type BulkCall,
  type BulkPreview,
  type BulkRefusal,
  type BulkResult,
} from './bulk-call.ts';
import { deleteTreesOf } from './delete-selected.ts';
import { pruneShape } from './management-options.ts';
import { Pacer, reclaim } from './pacer.ts';
import { pruneBatch } from './prune-selected.ts';
import { retryForBulk } from './rerun.ts';
import { platform } from '../model/platform.ts';

/** The bounds of one part. */
export interface SliceBounds {
  readonly maxMs: number;
  readonly maxInstances: number;
  readonly maxPendingEvents: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What happened to an instance. `changed`: by this transaction. `unchanged`: nothing was left to do. `ignored`: the
 * action does not apply to it, so it does not count as matching.
 */
type Outcome = 'changed' | 'unchanged' | 'ignored' | Omit<BulkRefusal, 'id'>;

interface Batch {
  readonly store: Provider;
  readonly instances: readonly InstanceRecord[];
  readonly call: BulkCall;
  readonly audit: AuditEntry;
  readonly pacer: Pacer;
  readonly maxPendingEvents: number;
}

/** Applies an action to the first instances of a batch. Returns an outcome for each that it visited. */
type Apply<Kind extends BulkAction['kind']> = (
  batch: Batch,
  action: Extract<BulkAction, { kind: Kind }>,
) => Promise<readonly Outcome[]>;

const batchSize = 100;
const maxListed = 100;

const actions: {
  readonly [Kind in BulkAction['kind']]: {
    readonly audited: AuditEntry['action'];
    readonly apply: Apply<Kind>;
    /** Whether the action applies to roots only. */
    readonly rootsOnly?: true;
    /** The parts of the action that the audit records with the filter. */
    readonly shape?: (action: Extract<BulkAction, { kind: Kind }>) => object;
  };
} = {
  cancel: {
    audited: 'cancelBulk',
    async apply({ store, instances, call, audit }, { cleanupMs }) {
      const { reason, actor } = call;
      const results = await store.requestCancel(
        instances.map(({ instanceId, incarnation }) => ({
          instanceId,
          incarnation,
          reason: reason ?? 'canceled',
          actor,
          cleanupMs,
          audit,
        })),
      );
      return results.map(toStopOutcome);
    },
  },
  terminate: {
    audited: 'terminateBulk',
    async apply({ store, instances, call, audit }, { tree }) {
      const { reason, actor } = call;
      const results = await store.terminate(
        instances.map(({ instanceId, incarnation }) => ({
          instanceId,
          incarnation,
          reason: reason ?? 'terminated',
          actor,
          tree,
          audit,
        })),
      );
      return results.map(toStopOutcome);
    },
    shape: ({ tree }) => ({ ...(tree && { tree }) }),
  },
  retry: {
    audited: 'retryBulk',
    rootsOnly: true,
    async apply({ store, instances, audit }, { from }) {
      const outcomes: Outcome[] = [];
      // One after the other: the progress in the audit record requires descending keys.
      for (const record of instances.slice(0, retriedPerBatch)) {
        const isRoot = record.parentInstanceId === null;
        outcomes.push(isRoot ? await retryOne(store, record, { from, audit }) : 'ignored');
      }
      return outcomes;
    },
    shape: ({ from }) => ({ from }),
  },
  pause: {
    audited: 'pauseBulk',
    async apply({ store, instances, call, audit }, { tree }) {
      const { reason, actor } = call;
      const results = await store.pauseInstances(
        instances.map(({ instanceId, incarnation }) => ({
          instanceId,
          incarnation,
          reason,
          actor,
          tree,
          audit,
        })),
      );
      return results.map(toPauseOutcome);
    },
    shape: ({ tree }) => ({ ...(tree && { tree }) }),
  },
  resume: {
    audited: 'resumeBulk',
    async apply({ store, instances, audit }, { tree }) {
      const results = await store.resumeInstances(
        instances.map(({ instanceId, incarnation }) => ({ instanceId, incarnation, tree, audit })),
      );
      return results.map(toResumeOutcome);
    },
    shape: ({ tree }) => ({ ...(tree && { tree }) }),
  },
  raiseEvent: {
    audited: 'raiseEventBulk',
    async apply({ store, instances, audit, maxPendingEvents: maxPending }, { name, payload }) {
      const message = encodeMessage({ kind: 'eventRaised', name, payload });
      const results = await store.enqueueMessages(
        instances.map(({ instanceId, instanceKey }) => ({
          instanceId,
          message,
          maxPending,
          bulk: { audit, instanceKey },
        })),
      );
      return results.map(toEventOutcome);
    },
    shape: ({ name }) => ({ event: name }),
  },
  delete: {
    audited: 'deleteBulk',
    rootsOnly: true,
    async apply({ store, instances, audit, pacer }) {
      // Children are deleted with their roots.
      const roots = instances.filter(({ parentInstanceId }) => parentInstanceId === null);
      const results = await deleteTreesOf(store, roots.slice(0, pacer.size), { audit });
      const rows = results.reduce((sum, result) => sum + rowsOf(result), 0);
      pacer.adjust(results.length, rows);
      const byId = new Map(roots.map(({ instanceId }, index) => [instanceId, results[index]]));
      // Ends before the first root that was left for the next batch.
      const left = instances.findIndex(
        ({ instanceId }) => byId.has(instanceId) && byId.get(instanceId) === undefined,
      );
      const visited = left === -1 ? instances : instances.slice(0, left);
      return visited.map(({ instanceId }) => toDeleteOutcome(byId.get(instanceId)));
    },
  },
  prune: {
    audited: 'pruneBulk',
    async apply({ store, instances, audit, pacer }, { conditions }) {
      const targets = instances.slice(0, prunedPerBatch);
      const { prunedIds } = await pruneBatch(store, {
        targets: targets.map(({ instanceId, incarnation }) => ({
          instanceId,
          incarnation,
          conditions,
        })),
        dryRun: false,
        audit,
        pacer,
      });
      return targets.map(({ instanceId }) => (prunedIds.has(instanceId) ? 'changed' : 'unchanged'));
    },
    shape: ({ conditions }) => pruneShape(conditions),
  },
};

const prunedPerBatch = 16;
// A retry reads the history.
const retriedPerBatch = 16;

/** Runs a part of a bulk operation: until its bounds are reached, or all matching instances were visited. */
export async function runBulkSlice(
  store: Provider,
  call: BulkCall,
  bounds: SliceBounds,
): Promise<BulkResult> {
  const position = readBulkCursor(call.cursor);
  if (call.dryRun) return preview(store, call);
  const { signal } = bounds;
  const audit = auditOf(call, position.token);
  const [known] = await store.listAudit({ limit: 1, auditId: audit.auditId });
  const pacer = new Pacer();
  const endsAt = platform.monotonic() + bounds.maxMs;
  const most = Math.min(call.limit, bounds.maxInstances);
  let { beforeKey, matched, refused } = position;
  let changed = known?.instances ?? 0;
  let visited = 0;
  let done = false;
  const listed: BulkRefusal[] = [];
  const mayContinue = (): boolean => signal?.aborted !== true && platform.monotonic() < endsAt;
  while (!done && visited < most && mayContinue()) {
    const limit = Math.min(batchSize, most - visited);
    const from = beforeKey;
    const [{ instances, nextKey }, outcomes] = await pacer.step(async () => {
      const page = await listPage(store, call, limit, from);
      const batch = { ...bounds, store, instances: page.instances, call, audit, pacer };
      return [page, page.instances.length === 0 ? [] : await applyTo(batch)] as const;
    });
    for (const [index, outcome] of outcomes.entries()) {
      const { instanceId = '', instanceKey } = instances[index] ?? {};
      beforeKey = instanceKey ?? beforeKey;
      if (outcome === 'ignored') continue;
      visited += 1;
      matched += 1;
      if (outcome === 'changed') changed += 1;
      if (typeof outcome === 'string') continue;
      refused += 1;
      if (listed.length < maxListed) listed.push({ id: instanceId, ...outcome });
    }
    // A page may be short, or even empty, before the end of the listing.
    if (outcomes.length < instances.length) continue;
    beforeKey = nextKey ?? beforeKey;
    done = nextKey === null;
  }
  if (call.action.kind === 'delete' && visited > 0) await reclaim(store, pacer);
  // The response of an earlier try may be lost: its instances were changed, and may not match any more.
  matched = Math.max(matched, changed + refused);
  const { token, startedAt } = position;
  const next = { token, startedAt, matched, changed, refused };
  return {
    matched,
    changed,
    refused: listed,
    refusedMore: refused - listed.length,
    done,
    ...(!done && {
      cursor: toBulkCursor(beforeKey === undefined ? next : { ...next, beforeKey }),
    }),
  };
}

function applyTo(batch: Batch): Promise<readonly Outcome[]> {
  const { action } = batch.call;
  // The action and its table entry have the same kind.
  const apply = actions[action.kind].apply as Apply<BulkAction['kind']>;
  return apply(batch, action);
}

function listPage(
  store: Provider,
  { filter }: BulkCall,
  limit: number,
  beforeKey: number | undefined,
): Promise<ListInstancesResult> {
  return store.listInstances({
    filter,
    limit,
    payloads: false,
    ...(beforeKey !== undefined && { beforeKey }),
  });
}

function auditOf(call: BulkCall, token: string): AuditEntry {
  const { action, actor, reason, filter } = call;
  const { audited, shape } = actions[action.kind];
  const identity = JSON.stringify([token, action.kind, actor, filter]);
  return {
    auditId: createHash('sha256').update(identity).digest('base64url'),
    action: audited,
    actor,
    reason,
    filter: JSON.stringify({ ...shapeOf(filter), ...shape?.(action as never) }),
  };
}

// Values of these conditions do not identify an instance or a person. Of all others, only the presence is recorded.
const recordedConditions: ReadonlySet<string> = new Set([
  'status',
  'kind',
  'name',
  'names',
  'version',
  'createdFrom',
  'createdBefore',
  'endedFrom',
  'endedBefore',
  'failureCode',
  'blocked',
  'leaked',
  'paused',
  'unregistered',
  'rootsOnly',
]);

/** The conditions as stored in the audit, without ids. */
function shapeOf(filter: BulkCall['filter']): object {
  return Object.fromEntries(
    Object.entries(filter).map(([key, value]) => [key, recordedConditions.has(key) ? value : true]),
  );
}

const maxCounted = 10_000;
const maxSampled = 20;
const countedPerPage = 1_000;

/** Counts the instances that match, without changing any. */
async function preview(store: Provider, call: BulkCall): Promise<BulkResult> {
  const byStatus: Partial<Record<InstanceStatus, number>> = {};
  const sample: string[] = [];
  const { rootsOnly } = actions[call.action.kind];
  const most = Math.min(call.limit, maxCounted);
  const pacer = new Pacer();
  let { beforeKey } = readBulkCursor(call.cursor);
  let matched = 0;
  let isLast = false;
  while (!isLast && matched < most) {
    const from = beforeKey;
    const page = await pacer.step(() => listPage(store, call, countedPerPage, from));
    for (const { instanceId, status, parentInstanceId } of page.instances) {
      if (matched === most || (rootsOnly === true && parentInstanceId !== null)) continue;
      matched += 1;
      byStatus[status] = (byStatus[status] ?? 0) + 1;
      if (sample.length < maxSampled) sample.push(instanceId);
    }
    beforeKey = page.nextKey ?? undefined;
    isLast = page.nextKey === null;
  }
  const found: BulkPreview = { byStatus, sample, capped: matched === most && most === maxCounted };
  return { matched, changed: 0, refused: [], refusedMore: 0, done: true, preview: found };
}

function toStopOutcome({
  found,
  changed,
  status,
}: Pick<StopResult, 'found' | 'changed' | 'status'>): Outcome {
  if (changed) return 'changed';
  if (!found || status === null) return refuse('INSTANCE_NOT_FOUND', 'It was deleted.');
  if (isTerminal(status)) return refuse('INSTANCE_OVER', `It is ${status}.`);
  return 'unchanged';
}

async function retryOne(
  store: Provider,
  record: InstanceRecord,
  options: { readonly from: 'failure' | 'start'; readonly audit: AuditEntry },
): Promise<Outcome> {
  try {
    const result = await retryForBulk(store, record, options);
    return result === 'retried' ? 'changed' : 'unchanged';
  } catch (error) {
    if (error instanceof PerdureError) return refuse(error.code, error.message);
    throw error;
  }
}

function toPauseOutcome(result: PauseResult): Outcome {
  if (result.status === 'canceling' && !result.changed && !result.paused) {
    return refuse('INSTANCE_OVER', 'It is canceling.');
  }
  return toStopOutcome(result);
}

function toResumeOutcome(result: PauseResult): Outcome {
  // An instance that has ended is not paused.
  if (!result.changed && result.found) return 'unchanged';
  return toStopOutcome(result);
}

function toEventOutcome(result: EnqueueResult): Outcome {
  switch (result) {
    case 'enqueued':
      return 'changed';
    case 'repeated':
      return 'unchanged';
    case 'missing':
      return refuse('INSTANCE_NOT_FOUND', 'It was deleted.');
    case 'over':
      return refuse('INSTANCE_OVER', 'It has ended.');
    case 'full':
      return refuse('EVENT_BUFFER_FULL', 'Its event buffer is full.');
  }
}

function toDeleteOutcome(result: TreeDeletionResult | undefined): Outcome {
  switch (result?.kind) {
    case 'deleted':
      return result.counts.instancesDeleted > 0 ? 'changed' : 'unchanged';
    case 'running':
      return refuse('INSTANCE_STILL_RUNNING', `${show(result.instanceId)} is ${result.status}.`);
    case 'orphan':
      return refuse('INSTANCE_STILL_RUNNING', `It started ${show(result.instanceId)} meanwhile.`);
    case 'replaced':
      return refuse('INSTANCE_NOT_FOUND', 'It was deleted.');
    case undefined:
      return 'ignored';
  }
}

function refuse(code: ErrorCode, reason: string): Outcome {
  return { code, reason };
}

function show(instanceId: string): string {
  return `Instance ${JSON.stringify(instanceId)}`;
}

function rowsOf(result: TreeDeletionResult): number {
  if (result.kind !== 'deleted') return 0;
  const { instancesDeleted, executionsDeleted, eventsDeleted, queueMessagesDeleted } =
    result.counts;
  return instancesDeleted + executionsDeleted + eventsDeleted + queueMessagesDeleted;
}
