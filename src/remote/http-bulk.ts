import type { BulkBackend, BulkCall, BulkResult } from '../management/bulk-call.ts';
import { decodePayload } from '../model/values/payload.ts';
import type { Request } from './operations.ts';
import type { Transport } from './transport.ts';

// Every request has the cursor of its operation, so the server changes nothing twice.
const repeatable = { repeatable: true };

/** Bulk operations on a store that is open in a server. An abort does not cancel a request: its response has the progress. */
export class HttpBulk implements BulkBackend {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  run(call: BulkCall): Promise<BulkResult> {
    const { action } = call;
    const common = toWire(call);
    switch (action.kind) {
      case 'cancel': {
        const body = { ...common, cleanupTimeout: action.cleanupMs };
        return this.#transport.call('bulkCancel', { body }, repeatable);
      }
      case 'terminate': {
        const body = { ...common, tree: action.tree };
        return this.#transport.call('bulkTerminate', { body }, repeatable);
      }
      case 'retry': {
        const body = { ...common, from: action.from };
        return this.#transport.call('bulkRetry', { body }, repeatable);
      }
      case 'pause': {
        const body = { ...common, tree: action.tree };
        return this.#transport.call('bulkPause', { body }, repeatable);
      }
      case 'resume': {
        const body = { ...common, tree: action.tree };
        return this.#transport.call('bulkResume', { body }, repeatable);
      }
      case 'raiseEvent': {
        const { name, payload } = action;
        const value = payload === null ? {} : { payload: decodePayload(payload) };
        const body = { ...common, name, ...value };
        return this.#transport.call('bulkRaiseEvent', { body }, repeatable);
      }
      case 'delete':
        return this.#transport.call('bulkDelete', { body: common }, repeatable);
      case 'prune': {
        const { keepLast, endedBefore } = action.conditions;
        const body = { ...common, keepLast, completedBefore: endedBefore };
        return this.#transport.call('bulkPrune', { body }, repeatable);
      }
    }
  }
}

function toWire(call: BulkCall): Request<'bulkDelete'>['body'] {
  const { filter, reason, actor, dryRun, limit, cursor } = call;
  const { status, names, parentInstanceId, tags, ...others } = filter;
  return {
    filter: {
      ...others,
      ...(status !== undefined && { status: [...status] }),
      ...(names !== undefined && { name: [...names] }),
      ...(parentInstanceId !== undefined && { parentId: parentInstanceId }),
      ...(tags !== undefined && { tags: { ...tags } }),
    },
    // The client has checked it.
    all: Object.keys(filter).length === 0,
    dryRun,
    cursor,
    reason: reason ?? undefined,
    actor: actor ?? undefined,
    ...(limit < Number.MAX_SAFE_INTEGER && { limit }),
  };
}
