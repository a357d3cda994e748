import type { ManagementStore } from '../providers/contract/management.ts';

/** An instance and all its descendants. */
export interface InstanceTree {
  readonly rootId: string;
  /** The distinct ids, children before their parents: a valid order of deletion. */
  readonly allIds: readonly string[];
  readonly size: number;
  /** Whether there are no descendants. */
  readonly isRootOnly: boolean;
}

const maxIdsPerQuery = 1_000;

/** Reads the trees of several instances, one query per level for all of them. */
export async function readInstanceTrees(
  store: Pick<ManagementStore, 'listChildren'>,
  rootIds: readonly string[],
): Promise<readonly InstanceTree[]> {
  const trees = rootIds.map((rootId) => new Set([rootId]));
  let level = rootIds.map((id, tree) => ({ id, tree }));
  while (level.length > 0) {
    const children = await listChildren(
      store,
      level.map(({ id }) => id),
    );
    const below: { readonly id: string; readonly tree: number }[] = [];
    for (const [index, { tree }] of level.entries()) {
      const ids = trees[tree];
      for (const id of children[index] ?? []) {
        // In a damaged store, an instance may be its own ancestor.
        if (ids === undefined || ids.has(id)) continue;
        ids.add(id);
        below.push({ id, tree });
      }
    }
    level = below;
  }
  return trees.map((ids, index) => toTree(rootIds[index] ?? '', ids));
}

/** Reads the tree of one instance. */
export async function readInstanceTree(
  store: Pick<ManagementStore, 'listChildren'>,
  rootId: string,
): Promise<InstanceTree> {
  const [tree] = await readInstanceTrees(store, [rootId]);
  return tree ?? toTree(rootId, new Set([rootId]));
}

// Ids were added level by level, so the reversed order has children before their parents.
function toTree(rootId: string, ids: ReadonlySet<string>): InstanceTree {
  return {
    rootId,
    allIds: [...ids].toReversed(),
    size: ids.size,
    isRootOnly: ids.size === 1,
  };
}

async function listChildren(
  store: Pick<ManagementStore, 'listChildren'>,
  ids: readonly string[],
): Promise<readonly (readonly string[])[]> {
  const children: (readonly string[])[] = [];
  for (let from = 0; from < ids.length; from += maxIdsPerQuery) {
    const lists = await store.listChildren(ids.slice(from, from + maxIdsPerQuery));
    for (const list of lists) children.push(list);
  }
  return children;
}
