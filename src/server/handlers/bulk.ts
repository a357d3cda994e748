import { readBulkCall } from '../../client/managing/bulk.ts';
import { readEventCall } from '../../client/starting/start-request.ts';
import type { BulkAction, BulkResult } from '../../management/bulk-call.ts';
import { readPruneConditions } from '../../management/management-options.ts';
import { toMs } from '../../model/values/duration.ts';
import { actorOf, type Caller } from '../access/tokens.ts';
import type { bulkRoutes } from '../routes/bulk.ts';
import type { RequestOf } from '../routes/route.ts';
import type { Handlers, ServerContext } from '../server-context.ts';

// Short parts keep the progress of the client current, and end soon after an abort.
const sliceMs = 2_000;

export const bulkHandlers: Handlers<typeof bulkRoutes> = {
  bulkCancel(call, context) {
    const { cleanupTimeout = '5m' } = call.body;
    const cleanupMs = toMs(cleanupTimeout, 'cleanupTimeout');
    return run({ kind: 'cancel', cleanupMs }, call, context);
  },
  bulkTerminate(call, context) {
    return run({ kind: 'terminate', tree: call.body.tree ?? false }, call, context);
  },
  bulkRetry(call, context) {
    return run({ kind: 'retry', from: call.body.from }, call, context);
  },
  bulkPause(call, context) {
    return run({ kind: 'pause', tree: call.body.tree ?? false }, call, context);
  },
  bulkResume(call, context) {
    return run({ kind: 'resume', tree: call.body.tree ?? false }, call, context);
  },
  bulkRaiseEvent(call, context) {
    const { name, payload } = call.body;
    const event = readEventCall(name, payload, undefined, context.payloadLimitBytes);
    return run({ kind: 'raiseEvent', ...event }, call, context);
  },
  bulkDelete(call, context) {
    return run({ kind: 'delete' }, call, context);
  },
  bulkPrune(call, context) {
    return run({ kind: 'prune', conditions: readPruneConditions(call.body) }, call, context);
  },
};

interface AnyCall {
  readonly body: RequestOf<(typeof bulkRoutes)['bulkDelete']>['body'];
  readonly caller: Caller;
  readonly signal: AbortSignal;
}

/** Runs one part of a bulk operation. The actor is the token, whatever the cursor says. */
async function run(
  action: BulkAction,
  { body, caller, signal }: AnyCall,
  { bulk, bulkMs, clock }: ServerContext,
): Promise<BulkResult> {
  const { filter, all, dryRun, limit, cursor, reason, actor } = body;
  const given = { all, dryRun, limit, cursor, reason };
  const call = readBulkCall(action, filter, given, clock.now());
  const named = { ...call, actor: actorOf(caller, actor) };
  return bulk.run(named, signal, Math.min(bulkMs, sliceMs));
}
