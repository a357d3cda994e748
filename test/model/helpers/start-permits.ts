import type { ReferenceModel } from './reference-model.ts';
import type { Connection } from './store-boundary.ts';
import type { StoreCall } from './store-call.ts';

/** The activities that each process may start: those of its last claims that were not canceled. */
export class StartPermits {
  readonly #keys = new WeakMap<Connection, Set<string>>();

  /** Whether a process may start the activity with this idempotency key. */
  allows(connection: Connection, key: string): boolean {
    return this.#keys.get(connection)?.has(key) === true;
  }

  /** Observes a call after the model has applied it. */
  observe(call: StoreCall, connection: Connection, model: ReferenceModel): void {
    const keys = this.#keys.get(connection) ?? new Set<string>();
    this.#keys.set(connection, keys);
    if (call.method === 'fetchWorkItems') {
      for (const { instanceId, incarnation, executionId, operation, cancel } of call.result) {
        const key = `${instanceId}/${incarnation}/${executionId}.${operation}`;
        if (cancel === null) keys.add(key);
        else keys.delete(key);
      }
    }
    for (const token of claimedAtInsert(call)) {
      const item = model.tokens.get(token);
      if (item === undefined) continue;
      const { id, incarnation } = item.instance;
      keys.add(`${id}/${incarnation}/${item.execution}.${item.operation}`);
    }
  }
}

function claimedAtInsert(call: StoreCall): readonly string[] {
  const claimed =
    call.method === 'ackOrchestrationItems' || call.method === 'ackTurns'
      ? call.result.flatMap((result) => (result.ok ? result.claimed : []))
      : call.method === 'createInstances'
        ? call.result.flatMap((result) => (result.kind === 'created' ? result.claimed : []))
        : [];
  return claimed.map(({ lockToken }) => lockToken);
}
