/**
 * The writes of the watchdog thread: it renews the claims of code that blocks the event loop, and ends them after the lease. The
 * thread loads this module when the event loop misses a beat, because it takes 4 MB with the modules that it imports.
 */
import { encodeBlockedDetails } from '../../model/failures/blocked.ts';
import type { Provider, Reopening } from '../../providers/contract/provider.ts';
import { blockedFailure, describeBlock } from './blocked-failure.ts';
import type { LoopHold } from './loop-holder.ts';
import type { WatchedWorker } from './watchdog-messages.ts';

// Effectively forever: another build or an operator unblocks the instance.
const blockedDelayMs = 10 * 365 * 24 * 3_600_000;

/** How long code has blocked the event loop, and where. */
interface Blocking {
  readonly blockedMs: number;
  readonly leaseMs: number;
  readonly stack: string | undefined;
}

/** Opens the store of a worker on a connection of its own. */
export async function openStore(reopening: Reopening): Promise<Provider> {
  const { module, exportName, options } = reopening;
  const loaded = await loadStore(reopening);
  const open = loaded[exportName];
  if (open === undefined)
    throw new Error(
      `Module ${JSON.stringify(module)} does not export ${JSON.stringify(exportName)}.`,
    );
  return open(options);
}

/** Loads the modules of a store. */
export function loadStore({
  module,
}: Reopening): Promise<Record<string, (options: object) => Promise<Provider>>> {
  return import(module) as Promise<Record<string, (options: object) => Promise<Provider>>>;
}

/** Extends the claims on the instance and on the work items that blocking code holds. */
export async function renewClaims(
  store: Provider,
  hold: LoopHold,
  leases: { readonly leaseMs: number; readonly activityLeaseMs: number },
): Promise<void> {
  const { leaseMs, activityLeaseMs } = leases;
  const items = hold.kind === 'handler' ? [hold.lockToken] : (hold.items ?? []);
  if (hold.kind === 'turn' && hold.lockToken !== undefined) {
    await store.renewOrchestrationLocks([hold.lockToken], leaseMs);
  }
  if (items.length === 0) return;
  const renewals = items.map((lockToken) => ({ lockToken }));
  await store.renewWorkItemLocks(renewals, Math.max(leaseMs, activityLeaseMs));
}

/** Blocks the instance, or fails the run, whose code exceeded its lease. Returns whether the store did so. */
export function endClaim(
  store: Provider,
  hold: LoopHold,
  worker: WatchedWorker,
  blocking: Blocking,
): Promise<boolean> {
  return hold.kind === 'turn'
    ? blockInstance(store, hold, worker, blocking)
    : failRun(store, hold, worker, blocking);
}

async function blockInstance(
  store: Provider,
  { lockToken, fences, what }: LoopHold & { kind: 'turn' },
  { buildId, name }: WatchedWorker,
  { blockedMs, leaseMs, stack }: Blocking,
): Promise<boolean> {
  const location = stack?.split('\n', 1)[0];
  const code = 'EVENT_LOOP_BLOCKED';
  const details = encodeBlockedDetails({ code, worker: name, ...(location && { location }) });
  const reason = `${code}: ${describeBlock(what, blockedMs, leaseMs)}`;
  const blocked = { reason, buildId, details };
  const how = { delayMs: blockedDelayMs, giveBackClaim: true, evenIfExpired: true, blocked };
  if (lockToken !== undefined) {
    return (await store.abandonOrchestrationItems([{ lockToken, ...how }]))[0] === true;
  }
  if (fences === undefined) return false;
  return (await store.holdInstances([{ ...fences, delayMs: blockedDelayMs, blocked }]))[0] === true;
}

async function failRun(
  store: Provider,
  { lockToken, startedAt, onFail, what }: LoopHold & { kind: 'handler' },
  { name }: WatchedWorker,
  { blockedMs, leaseMs }: Blocking,
): Promise<boolean> {
  const outcome = {
    kind: 'failed',
    failure: JSON.stringify(blockedFailure(what, blockedMs, leaseMs)),
    ran: { worker: name, startedAt },
    ...(onFail !== undefined && { onFail }),
  } as const;
  return (await store.ackWorkItems([{ lockToken, outcome }]))[0]?.ok === true;
}
