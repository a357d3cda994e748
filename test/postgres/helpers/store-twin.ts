import type {
  AuditEntry,
  ExecutionPrune,
  ScanInstancesParams,
  ScanInstancesResult,
} from '../../../src/providers/contract/management.ts';
import type { OrchestrationItem } from '../../../src/providers/contract/orchestration-queue.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { CommitResult, Turn } from '../../../src/providers/contract/turn.ts';
import type { WorkItem, WorkOutcome } from '../../../src/providers/contract/work-queue.ts';

const lockMs = 10_000;

/** One of two stores that run the same operations. Its results omit tokens and keys, which differ between stores. */
export class StoreTwin {
  readonly provider: Provider;
  readonly #claims: OrchestrationItem[] = [];
  readonly #work: WorkItem[] = [];

  constructor(provider: Provider) {
    this.provider = provider;
  }

  get claimCount(): number {
    return this.#claims.length;
  }

  get workCount(): number {
    return this.#work.length;
  }

  async fetch(max: number, buildId: string): Promise<unknown> {
    const params = { max, lockMs, waitMs: 0, buildId };
    const items = await this.provider.fetchOrchestrationItems(params);
    this.#claims.push(...items);
    return items.map(({ instanceKey: _key, lockToken: _token, messages, ...item }) => ({
      ...item,
      messages: messages.map(({ messageKey: _messageKey, ...message }) => message),
    }));
  }

  async fetchWork(max: number): Promise<unknown> {
    const items = await this.provider.fetchWorkItems({ max, lockMs, waitMs: 0 });
    this.#work.push(...items);
    return items.map(({ instanceKey: _key, lockToken: _token, ...item }) => item);
  }

  /** Acks claims by their index among all claims so far. */
  async ack(
    places: readonly number[],
    turnOf: (item: OrchestrationItem) => Turn,
  ): Promise<unknown> {
    const items = places.flatMap((place) => this.#claims[place] ?? []);
    const results = await this.provider.ackOrchestrationItems(
      items.map((item) => ({
        lockToken: item.lockToken,
        messageKeys: item.messages.map(({ messageKey }) => messageKey),
        turn: turnOf(item),
      })),
    );
    return results.map(toComparable);
  }

  async abandon(place: number, delayMs: number, buildId: string | undefined): Promise<unknown> {
    const lockToken = this.#claims[place]?.lockToken ?? '';
    const blocked = buildId === undefined ? {} : { blocked: { reason: 'x', buildId } };
    const giveBackClaim = buildId !== undefined;
    return this.provider.abandonOrchestrationItems([
      { lockToken, delayMs, giveBackClaim, ...blocked },
    ]);
  }

  async ackWork(places: readonly number[], outcome: WorkOutcome): Promise<unknown> {
    const results = await this.provider.ackWorkItems(
      places.map((place) => ({ lockToken: this.#token(place), outcome })),
    );
    return results.map(toComparable);
  }

  retryWork(place: number, delayMs: number): Promise<unknown> {
    const lockToken = this.#token(place);
    return this.provider.retryWorkItems([{ lockToken, delayMs, failure: '{}' }]);
  }

  renewWork(places: readonly number[]): Promise<unknown> {
    const renewals = places.map((place) => ({ lockToken: this.#token(place), heartbeat: '1' }));
    return this.provider.renewWorkItemLocks(renewals, lockMs);
  }

  markPointOfNoReturn(place: number): Promise<unknown> {
    return this.provider.markPointOfNoReturn(this.#token(place));
  }

  /** Deletes the trees of the ids, or with `isWhole: false` only the instances themselves. */
  async delete(
    ids: readonly string[],
    how: { readonly force: boolean; readonly isWhole: boolean; readonly dryRun: boolean },
  ): Promise<unknown> {
    const trees = await Promise.all(ids.map(async (id) => (how.isWhole ? this.#treeOf(id) : [id])));
    const { force, dryRun } = how;
    return this.provider.deleteInstancesAtomic(
      trees.map((instanceIds) => ({ instanceIds, force, dryRun, audit: auditOf(ids) })),
    );
  }

  prune(
    ids: readonly string[],
    conditions: Pick<ExecutionPrune, 'keepLast' | 'endedBefore' | 'max' | 'dryRun'>,
  ): Promise<unknown> {
    return this.provider.pruneExecutionsAtomic(
      ids.map((instanceId) => ({ instanceId, ...conditions, audit: auditOf(ids) })),
    );
  }

  /** Scans all instances in steps. */
  async scan(params: Omit<ScanInstancesParams, 'afterKey'>): Promise<unknown> {
    const steps: unknown[] = [];
    for (let afterKey: number | null = 0; afterKey !== null;) {
      const step: ScanInstancesResult = await this.provider.scanInstances({ ...params, afterKey });
      steps.push(step.instances.map(({ instanceKey: _key, ...instance }) => instance));
      afterKey = step.nextKey;
    }
    return steps;
  }

  /** The ids of a tree, children before their parents. */
  async #treeOf(instanceId: string): Promise<readonly string[]> {
    const [children = []] = await this.provider.listChildren([instanceId]);
    const below = await Promise.all(children.map((child) => this.#treeOf(child)));
    return [...below.flat(), instanceId];
  }

  /** Metrics, queue depths and audit, without byte counts, which differ. */
  async metrics(): Promise<unknown> {
    const {
      storageBytes: _all,
      reclaimableBytes: _some,
      ...metrics
    } = await this.provider.systemMetrics();
    const audit = await this.provider.listAudit({ limit: 1_000 });
    return {
      metrics,
      depths: await this.provider.queueDepths(),
      audit: audit.map(({ auditKey: _key, ...record }) => record),
    };
  }

  /** Everything that can be read of all instances. */
  async snapshot(): Promise<unknown> {
    const { instances: records } = await this.provider.listInstances({ filter: {}, limit: 1_000 });
    return Promise.all(
      records.map(async ({ instanceKey: _key, ...record }) => {
        const { instanceId } = record;
        const page = { instanceId, after: 0, limit: 1_000 };
        const executions = await this.provider.listExecutions(page);
        const histories = await Promise.all(
          executions.map(({ executionId }) =>
            this.provider.readInstanceHistory({ ...page, executionId }),
          ),
        );
        const running = await this.provider.listRunningItems(instanceId);
        const size = await this.provider.measureInstance(instanceId);
        const [children] = await this.provider.listChildren([instanceId]);
        const parent = await this.provider.getParentId(instanceId);
        return { record, executions, histories, running, size, children, parent };
      }),
    );
  }

  #token(place: number): string {
    return this.#work[place]?.lockToken ?? '';
  }
}

function auditOf(ids: readonly string[]): AuditEntry {
  return { auditId: ids.join(), action: 'delete', actor: null, filter: '{}' };
}

function toComparable(result: CommitResult): unknown {
  return result.ok
    ? result.claimed.map(({ operation }) => operation)
    : (result.error as { readonly code?: string }).code;
}
