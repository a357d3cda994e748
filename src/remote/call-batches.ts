export interface CallBatchesParams<Item, Result> {
  /** Makes one call for items of one group; resolves with their results, in order. */
  readonly send: (group: string, items: readonly Item[]) => Promise<readonly Result[]>;
  /** The weight of an item in a call. */
  readonly weigh?: (item: Item) => number;
  /** Maximum weight of a call; a single item may exceed it. Default 1,000,000. */
  readonly maxWeight?: number;
  /** Maximum concurrent calls of a group. Default: unlimited. */
  readonly maxAtOnce?: number;
}

interface Waiting<Item, Result> extends PromiseWithResolvers<Result> {
  readonly item: Item;
}

interface Group<Item, Result> {
  waiting: Waiting<Item, Result>[];
  underWay: number;
  isScheduled: boolean;
}

const maxItems = 1_000;
const defaultMaxWeight = 1_000_000;

/** Batches calls that are made in the same tick, or while the group is at its limit. */
export class CallBatches<Item, Result> {
  readonly #params: CallBatchesParams<Item, Result>;
  readonly #groups = new Map<string, Group<Item, Result>>();

  constructor(params: CallBatchesParams<Item, Result>) {
    this.#params = params;
  }

  /** Adds an item to the next call of its group; resolves with its result. */
  add(groupName: string, item: Item): Promise<Result> {
    const waiting = { item, ...Promise.withResolvers<Result>() };
    const group = this.#group(groupName);
    group.waiting.push(waiting);
    if (!group.isScheduled) {
      group.isScheduled = true;
      setTimeout(() => {
        group.isScheduled = false;
        this.#send(groupName, group);
      }, 0);
    }
    return waiting.promise;
  }

  #group(name: string): Group<Item, Result> {
    const group = this.#groups.get(name) ?? { waiting: [], underWay: 0, isScheduled: false };
    this.#groups.set(name, group);
    return group;
  }

  #send(name: string, group: Group<Item, Result>): void {
    const { maxAtOnce = Number.POSITIVE_INFINITY } = this.#params;
    while (group.waiting.length > 0 && group.underWay < maxAtOnce) {
      void this.#call(name, group, this.#take(group));
    }
    if (group.underWay === 0 && !group.isScheduled) this.#groups.delete(name);
  }

  #take(group: Group<Item, Result>): readonly Waiting<Item, Result>[] {
    const { weigh, maxWeight = defaultMaxWeight } = this.#params;
    let weight = 0;
    let count = 0;
    for (const { item } of group.waiting) {
      weight += weigh?.(item) ?? 0;
      if (count > 0 && (count === maxItems || weight > maxWeight)) break;
      count += 1;
    }
    return group.waiting.splice(0, count);
  }

  async #call(
    name: string,
    group: Group<Item, Result>,
    batch: readonly Waiting<Item, Result>[],
  ): Promise<void> {
    group.underWay += 1;
    try {
      const items = batch.map(({ item }) => item);
      const results = await this.#params.send(name, items);
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
    group.underWay -= 1;
    this.#send(name, group);
  }
}
