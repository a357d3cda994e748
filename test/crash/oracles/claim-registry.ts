import type { OrchestrationItem } from '../../../src/providers/contract/orchestration-queue.ts';

/** The instance that a turn belongs to. */
export interface ClaimedInstance {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
}

/** The operation that a work item belongs to. */
export interface ClaimedOperation extends ClaimedInstance {
  readonly operation: number;
}

/** Maps the lock tokens of this process to their instances and operations. */
export class ClaimRegistry {
  readonly #instances = new Map<string, ClaimedInstance>();
  readonly #operations = new Map<string, ClaimedOperation>();
  readonly #ids = new Map<number, string>();

  addInstance(item: OrchestrationItem): void {
    this.#instances.set(item.lockToken, item);
    this.addId(item.instanceKey, item.instanceId);
  }

  addId(instanceKey: number, instanceId: string): void {
    this.#ids.set(instanceKey, instanceId);
  }

  idOf(instanceKey: number): string | undefined {
    return this.#ids.get(instanceKey);
  }

  addOperation(token: string, operation: ClaimedOperation): void {
    this.#operations.set(token, operation);
  }

  instance(token: string): ClaimedInstance | undefined {
    return this.#instances.get(token);
  }

  operation(token: string): ClaimedOperation | undefined {
    return this.#operations.get(token);
  }
}

/** The idempotency key that the handler of this operation sees. */
export function keyOf({
  instanceId,
  incarnation,
  executionId,
  operation,
}: ClaimedOperation): string {
  return `${instanceId}/${incarnation}/${executionId}.${operation}`;
}
