import type { FetchWorkItemsParams, WorkItem } from '../../contract/work-queue.ts';
import { formatToken, type Secrets } from '../../shared/lock-token.ts';
import type { Connections } from '../driver/connection.ts';
import { definitionKeys, toItem, type ClaimedItem } from './item-claims.ts';
import type { Definitions } from '../tables/definitions.ts';
import { newPlaceSecret, type WorkItems } from '../tables/work-items.ts';
import type { QueueAccess } from '../wakeups/fetching.ts';
import { claimStatements } from './limited-claims.ts';
import type { LimitedDefinitions } from '../batches/limited-definitions.ts';
import type { LimitTriggers } from '../limits/limit-triggers.ts';

/** The store parts that claims of limited definitions need. */
export type LimitedFetchParts = QueueAccess & {
  readonly connections: Connections;
  readonly definitions: Definitions;
  readonly limited: LimitedDefinitions;
  readonly limitTriggers: LimitTriggers;
  readonly secrets: Secrets;
  readonly schema: string;
  readonly workItems: WorkItems;
  readonly estimatedNow: number;
};

/** Claims items of unlimited definitions. A suspect only if `isAlone`. */
type ClaimPlain = (params: FetchWorkItemsParams, isAlone: boolean) => Promise<readonly WorkItem[]>;

// How long a fetch claims without a due query, which shows what other processes enqueued and freed.
const maxQueryAgeMs = 50;
// The same while no limited definition is known.
const maxUnknownMs = 1_000;
// Maximum claims of one definition in a fetch. Each divides what is left among the lanes that still have items.
const maxClaimsPerFetch = 8;
// Signals of new items that a claim reads: enough for its items and for those that were enqueued meanwhile.
const signalsOf = (max: number): number => 2 * max + 50;
// The same after a claim that found nothing to claim although signals are left.
const moreSignals = 5_000;

/** Whether one of the items was claimed twice before without an outcome. */
function hasSuspect(items: readonly WorkItem[]): boolean {
  return items.some(({ claims, cancel }) => claims > 2 && cancel === null);
}

/** Equal for fetches of the same definitions. */
function textOf({ names, tasks }: FetchWorkItemsParams): string {
  return JSON.stringify([names, tasks]);
}

/** What a claim left, read under the row of its definition. */
interface Left {
  readonly now: number;
  readonly nextAt: number | null;
  readonly hasPlaces: boolean;
  readonly hasRate: boolean;
}

/** Claims items of limited definitions, one definition per transaction. */
export class LimitedFetches {
  readonly #store: LimitedFetchParts;
  readonly #statements: ReturnType<typeof claimStatements>;
  /** The names of fetches whose last due query found no items of unlimited definitions, with its monotonic time. Oldest first. */
  readonly #withoutPlain = new Map<string, number>();
  #limitedFirst = true;

  constructor(store: LimitedFetchParts) {
    this.#store = store;
    this.#statements = claimStatements(store.schema);
  }

  /** The number of fetches that are kept. */
  get keyCount(): number {
    return this.#withoutPlain.size;
  }

  /** Claims after a due query. `plain` claims items of unlimited definitions, if some are due. */
  claimDue(
    params: FetchWorkItemsParams,
    plain: ClaimPlain | undefined,
  ): Promise<readonly WorkItem[]> {
    this.#withoutPlain.delete(textOf(params));
    if (plain === undefined) this.#keepWithoutPlain(textOf(params));
    const keys = this.#dueKeys(params);
    if (keys.length === 0) return plain?.(params, true) ?? Promise.resolve([]);
    return this.#claimBoth(params, keys, plain);
  }

  /** Claims without a due query, after a claim that found work. Returns nothing if a due query is needed. */
  async claimBusy(params: FetchWorkItemsParams, plain: ClaimPlain): Promise<readonly WorkItem[]> {
    const { limited } = this.#store;
    const maxAgeMs = limited.isEmpty ? maxUnknownMs : maxQueryAgeMs;
    if (this.#store.monotonic() - limited.queriedAt > maxAgeMs) return [];
    const keys = this.#dueKeys(params);
    // What became due by time, such as an expired lease, may concern flagged items too: the due query finds both.
    if (keys.some((key) => !limited.wasLeft(key))) return [];
    if (keys.length === 0) return plain(params, true);
    const emptyAt = this.#withoutPlain.get(textOf(params)) ?? Number.NEGATIVE_INFINITY;
    const isEmpty = this.#store.monotonic() - emptyAt <= maxQueryAgeMs;
    return this.#claimBoth(params, keys, isEmpty ? undefined : plain);
  }

  /** Drops the entries that are too old, because the names of fetches vary. */
  #keepWithoutPlain(names: string): void {
    const now = this.#store.monotonic();
    for (const [other, queriedAt] of this.#withoutPlain) {
      if (now - queriedAt <= maxQueryAgeMs) break;
      this.#withoutPlain.delete(other);
    }
    this.#withoutPlain.set(names, now);
  }

  /** The wanted definitions that are due. */
  #dueKeys({ names, tasks }: FetchWorkItemsParams): readonly number[] {
    const { limited, definitions, estimatedNow } = this.#store;
    return limited.due(estimatedNow).filter((key) => {
      if (!definitions.knows([key])) return true;
      const { kind, name } = definitions.get(key);
      const wanted = kind === 'task' ? tasks : names;
      return kind !== 'orchestration' && (wanted === undefined || wanted.includes(name));
    });
  }

  /** Limited and unlimited items get half each, and what the others leave. They take turns in being first. */
  async #claimBoth(
    params: FetchWorkItemsParams,
    keys: readonly number[],
    plain: ClaimPlain | undefined,
  ): Promise<readonly WorkItem[]> {
    // Runs with keys may be the first items with lanes. Without triggers, no place would be freed.
    if (!(await this.#store.limitTriggers.tryToAdd('items'))) return plain?.(params, true) ?? [];
    await this.#loadDefinitions(keys);
    const wanted = this.#dueKeys(params);
    if (plain === undefined) return this.#claimLimited(params, wanted, true);
    const items: WorkItem[] = [];
    const half = Math.ceil(params.max / 2);
    const isLimitedFirst = this.#limitedFirst;
    this.#limitedFirst = !isLimitedFirst;
    for (const [part, isLimited] of [isLimitedFirst, !isLimitedFirst, isLimitedFirst].entries()) {
      if (part === 2 && items.length < half) break;
      const max = part === 0 ? half : params.max - items.length;
      const isAlone = items.length === 0;
      const claimed = isLimited
        ? await this.#claimLimited({ ...params, max }, wanted, isAlone)
        : await plain({ ...params, max }, isAlone);
      items.push(...claimed);
      // A suspect is claimed alone.
      if (items.length === params.max || (isAlone && hasSuspect(claimed))) break;
    }
    return items;
  }

  async #loadDefinitions(keys: readonly number[]): Promise<void> {
    const { definitions } = this.#store;
    if (!definitions.knows(keys))
      await this.#store.read('fetchWorkItems', (tx) => definitions.load(tx, keys));
  }

  async #claimLimited(
    params: FetchWorkItemsParams,
    keys: readonly number[],
    isAlone: boolean,
  ): Promise<readonly WorkItem[]> {
    const items: WorkItem[] = [];
    for (const key of keys) {
      let wasEmpty = false;
      for (let round = 0; round < maxClaimsPerFetch; round += 1) {
        const max = params.max - items.length;
        if (max < 1) return items;
        const signals = wasEmpty ? moreSignals : signalsOf(max);
        // A suspect is claimed alone.
        const suspects = isAlone && items.length === 0;
        const { claimed, isDue } = await this.#claimOne(key, { ...params, max, signals }, suspects);
        items.push(...claimed);
        wasEmpty = claimed.length === 0;
        if (hasSuspect(claimed)) return items;
        if (!isDue || (claimed.length === 0 && !suspects)) break;
      }
    }
    return items;
  }

  /** Claims items of one definition, in one round trip. */
  async #claimOne(
    definitionKey: number,
    { max, lockMs, worker, signals }: FetchWorkItemsParams & { readonly signals: number },
    suspects: boolean,
  ): Promise<{ readonly claimed: readonly WorkItem[]; readonly isDue: boolean }> {
    const { connections, definitions, limited, nowParameter: now } = this.#store;
    const { lock, revoke, drain, claim, next } = this.#statements;
    const isTask = definitions.get(definitionKey).kind === 'task';
    const drawn = this.#store.secrets.next();
    const hasPlace = limited.hasPlaces(definitionKey);
    // Calls of a task by orchestrations are activities.
    const secret = newPlaceSecret(drawn, { isTask: false, hasPlace });
    const taskSecret = newPlaceSecret(drawn, { isTask: true, hasPlace });
    const definition = { now, definitionKey };
    const sentAt = this.#store.monotonic();
    const [rows, left] = await connections.pipeline('fetchWorkItems', async (tx) => {
      const [, , , claimedRows, [nextRow]] = await Promise.all([
        tx.execute(...lock({ definitionKey })),
        tx.execute(...revoke(definition)),
        tx.execute(...drain({ ...definition, signals })),
        tx.query<ClaimedItem & { readonly now: number }>(
          ...claim({
            ...definition,
            lockMs: Math.ceil(lockMs),
            limit: max,
            suspects,
            taskKey: isTask ? definitionKey : 0,
            secret,
            taskSecret,
            worker,
          }),
        ),
        tx.query<Left>(...next(definition)),
      ]);
      return [claimedRows, nextRow];
    });
    const nextAt = left?.nextAt ?? Infinity;
    const isDue = left !== undefined && nextAt <= left.now;
    const hasPlaces = left?.hasPlaces ?? false;
    limited.claimed({ definitionKey, nextAt, hasPlaces, wasLeft: isDue });
    const [first] = rows;
    if (first === undefined) return { claimed: [], isDue };
    const leaseEnd = first.now + lockMs;
    this.#store.claimed({ topic: 'work', now: first.now, sentAt, leaseEnd });
    const isLimited = hasPlaces || left?.hasRate === true;
    return { claimed: await this.#toItems(rows, { secret, taskSecret, isLimited }), isDue };
  }

  async #toItems(
    rows: readonly (ClaimedItem & { readonly now: number })[],
    {
      secret,
      taskSecret,
      isLimited,
    }: { readonly secret: string; readonly taskSecret: string; readonly isLimited: boolean },
  ): Promise<readonly WorkItem[]> {
    const { definitions, workItems } = this.#store;
    const needed = rows.flatMap(definitionKeys);
    if (!definitions.knows(needed))
      await this.#store.read('fetchWorkItems', (tx) => definitions.load(tx, needed));
    const orphans = rows.flatMap(({ instanceId, itemKey }) =>
      instanceId === null ? [itemKey] : [],
    );
    if (orphans.length > 0)
      await this.#store.writeOnce('fetchWorkItems', ({ tx }) => workItems.delete(tx, orphans));
    return rows.flatMap((row) => {
      const lockToken = formatToken(row.itemKey, row.isTask ? taskSecret : secret);
      const item = toItem(definitions, row, { nowMs: row.now, lockToken });
      if (item === undefined) return [];
      return isLimited ? { ...item, limited: true as const } : item;
    });
  }
}
