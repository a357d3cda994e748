import type {
  DeleteInstanceResult,
  TreeDeletion,
  TreeDeletionResult,
} from '../../../src/providers/contract/management.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

type Tree = TreeDeletion;

/** Changes the arguments of a deletion. */
function editTrees({ provider }: Intact, edit: (tree: Tree) => Tree): Partial<Provider> {
  return { deleteInstancesAtomic: (trees) => provider.deleteInstancesAtomic(trees.map(edit)) };
}

/** Runs SQL on the database right before a deletion. */
function beforeDeletions({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    deleteInstancesAtomic(trees) {
      db.exec(sql);
      return provider.deleteInstancesAtomic(trees);
    },
  };
}

/** Runs SQL on the database right after a deletion. */
function afterDeletions({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async deleteInstancesAtomic(trees) {
      const results = await provider.deleteInstancesAtomic(trees);
      db.exec(sql);
      return results;
    },
  };
}

/** Restores the deleted rows of a table. */
function keeping(intact: Intact, table: string): Partial<Provider> {
  const { provider, db } = intact;
  return {
    async deleteInstancesAtomic(trees) {
      db.exec(`CREATE TEMP TABLE kept AS SELECT * FROM ${table}`);
      const results = await provider.deleteInstancesAtomic(trees);
      db.exec(`INSERT OR IGNORE INTO ${table} SELECT * FROM temp.kept; DROP TABLE temp.kept`);
      return results;
    },
  };
}

/** Changes the results of a deletion. */
function editResults(
  { provider }: Intact,
  edit: (result: TreeDeletionResult, tree: Tree) => TreeDeletionResult,
): Partial<Provider> {
  return {
    async deleteInstancesAtomic(trees) {
      const results = await provider.deleteInstancesAtomic(trees);
      return trees.flatMap((tree, index) => {
        const result = results[index];
        return result === undefined ? [] : [edit(result, tree)];
      });
    },
  };
}

function editCounts(
  intact: Intact,
  edit: (counts: DeleteInstanceResult, tree: Tree) => Partial<DeleteInstanceResult>,
): Partial<Provider> {
  return editResults(intact, (result, tree) =>
    result.kind === 'deleted'
      ? { kind: 'deleted', counts: { ...result.counts, ...edit(result.counts, tree) } }
      : result,
  );
}

const withoutIncarnation = ({ rootIncarnation: _life, ...tree }: Tree): Tree => tree;
const withoutDryRun = ({ dryRun: _dry, ...tree }: Tree): Tree => tree;

export const brokenDeletions: readonly BrokenProvider[] = [
  ...Object.entries({
    'the messages and timers': 'orchestrator_queue',
    'the work items': 'worker_queue',
    'the locks': 'instance_locks',
    'the finished executions': 'executions',
    'the instance rows': 'instances',
  }).map(([what, table]): BrokenProvider => ({
    fault: `${what} of a deleted instance are not deleted`,
    rejectedBy: 'delete/takes-everything',
    override: (intact) => keeping(intact, table),
  })),
  {
    fault: 'a deletion counts one execution per instance',
    rejectedBy: 'delete/takes-everything',
    override: (intact) =>
      editCounts(intact, ({ instancesDeleted }) => ({ executionsDeleted: instancesDeleted })),
  },
  {
    fault: 'a deletion omits two rows from queueMessagesDeleted',
    rejectedBy: 'delete/takes-everything',
    override: (intact) =>
      editCounts(intact, ({ queueMessagesDeleted }) => ({
        queueMessagesDeleted: Math.max(queueMessagesDeleted - 2, 0),
      })),
  },
  {
    fault: 'a deletion also deletes unrelated ended instances',
    rejectedBy: 'delete/a-tree-goes-whole',
    override: (intact) =>
      afterDeletions(intact, 'DELETE FROM instances WHERE ended_at IS NOT NULL'),
  },
  {
    fault: 'only the root of a tree is deleted',
    rejectedBy: 'delete/a-tree-goes-whole',
    override: (intact) => {
      const { provider, db } = intact;
      return {
        deleteInstancesAtomic(trees) {
          db.exec('UPDATE instances SET parent_instance_id = NULL');
          const roots = trees.map((tree) => ({
            ...tree,
            instanceIds: tree.instanceIds.slice(-1),
          }));
          return provider.deleteInstancesAtomic(roots);
        },
      };
    },
  },
  {
    fault: 'a terminated instance counts as running',
    rejectedBy: 'delete/every-end-is-an-end',
    override: ({ provider }) => ({
      async deleteInstancesAtomic(trees) {
        const ids = trees.flatMap(({ instanceIds }) => instanceIds);
        const records = await provider.getInstances(ids);
        const found = records.find((record) => record?.status === 'terminated');
        if (found === undefined) return provider.deleteInstancesAtomic(trees);
        const { instanceId, status } = found;
        return trees.map(() => ({ kind: 'running', instanceId, status }));
      },
    }),
  },
  {
    fault: 'unknown and repeated ids count as deleted instances',
    rejectedBy: 'delete/unknown-ids-count-nothing',
    override: (intact) =>
      editCounts(intact, (_counts, { instanceIds }) => ({ instancesDeleted: instanceIds.length })),
  },
  {
    fault: 'an instance that has not ended is deleted without force',
    rejectedBy: 'delete/what-is-not-over-needs-force',
    override: (intact) => editTrees(intact, (tree) => ({ ...tree, force: true })),
  },
  {
    fault: 'an instance that has not ended is not deleted with force',
    rejectedBy: 'delete/what-is-not-over-needs-force',
    override: (intact) => editTrees(intact, (tree) => ({ ...tree, force: false })),
  },
  {
    fault: 'an instance between two executions counts as ended',
    rejectedBy: 'delete/between-two-executions-is-running',
    override: (intact) =>
      beforeDeletions(
        intact,
        `UPDATE instances SET status = 'completed', ended_at = 1, completed_at = 1
         WHERE execution_id > 1 AND execution_started_at IS NULL`,
      ),
  },
  {
    fault: 'an instance counts as ended while its last activity stops',
    rejectedBy: 'delete/a-canceled-end-that-waits-is-running',
    override: (intact) =>
      beforeDeletions(
        intact,
        `UPDATE instances SET status = 'canceled', ended_at = 1, canceled_at = 1
         WHERE closing_reason IS NOT NULL`,
      ),
  },
  {
    fault: 'only the root of a tree has to be ended',
    rejectedBy: 'delete/a-running-child-keeps-the-tree',
    override: (intact) =>
      beforeDeletions(
        intact,
        `UPDATE instances SET status = 'completed', ended_at = 1, completed_at = 1
         WHERE parent_instance_id IS NOT NULL AND ended_at IS NULL`,
      ),
  },
  {
    fault: 'a deletion leaves orphans',
    rejectedBy: 'delete/refuses-to-leave-an-orphan',
    override: (intact) => beforeDeletions(intact, 'UPDATE instances SET parent_instance_id = NULL'),
  },
  {
    fault: 'a deletion with force leaves orphans',
    rejectedBy: 'delete/a-child-born-meanwhile-is-no-orphan',
    override: ({ provider, db }) => ({
      deleteInstancesAtomic(trees) {
        if (trees.some(({ force }) => force)) {
          db.exec('UPDATE instances SET parent_instance_id = NULL');
        }
        return provider.deleteInstancesAtomic(trees);
      },
    }),
  },
  {
    fault: 'a tree is deleted although a parent precedes its child',
    rejectedBy: 'delete/children-come-before-their-parents',
    override: (intact) => {
      const isRoot = intact.db.prepare(
        'SELECT 1 FROM instances WHERE instance_id = ? AND parent_instance_id IS NULL',
      );
      return editTrees(intact, (tree) => ({
        ...tree,
        instanceIds: [
          ...tree.instanceIds.filter((id) => isRoot.get(id) === undefined),
          ...tree.instanceIds.filter((id) => isRoot.get(id) !== undefined),
        ],
      }));
    },
  },
  {
    fault: 'a deletion ignores the incarnation of the root',
    rejectedBy: 'delete/a-later-life-is-not-meant',
    override: (intact) => editTrees(intact, withoutIncarnation),
  },
  {
    fault: 'a deletion ignores the incarnation when the root is missing',
    rejectedBy: 'delete/a-later-life-is-not-meant',
    override: (intact) => {
      const find = intact.db.prepare('SELECT 1 FROM instances WHERE instance_id = ?');
      return editTrees(intact, (tree) =>
        find.get(tree.instanceIds.at(-1)) === undefined ? withoutIncarnation(tree) : tree,
      );
    },
  },
  {
    fault: 'a dry run deletes',
    rejectedBy: 'delete/a-dry-run-changes-nothing',
    override: (intact) => editTrees(intact, withoutDryRun),
  },
  {
    fault: 'a dry run counts only instances',
    rejectedBy: 'delete/a-dry-run-changes-nothing',
    override: (intact) =>
      editCounts(intact, (_counts, { dryRun }) =>
        dryRun === true ? { executionsDeleted: 0, eventsDeleted: 0, queueMessagesDeleted: 0 } : {},
      ),
  },
  {
    fault: 'a dry run batched with deletions deletes',
    rejectedBy: 'delete/a-dry-run-changes-nothing',
    override: ({ provider }) => ({
      deleteInstancesAtomic: (trees) =>
        provider.deleteInstancesAtomic(
          trees.every(({ dryRun }) => dryRun === true) ? trees : trees.map(withoutDryRun),
        ),
    }),
  },
  {
    fault: 'one refused tree blocks the deletion of all others',
    rejectedBy: 'delete/a-refused-tree-spares-its-neighbours',
    override: ({ provider }) => ({
      async deleteInstancesAtomic(trees) {
        const dryRun = trees.map((tree) => ({ ...tree, dryRun: true }));
        const results = await provider.deleteInstancesAtomic(dryRun);
        const refused = results.find(({ kind }) => kind !== 'deleted');
        if (refused !== undefined) return trees.map(() => refused);
        return provider.deleteInstancesAtomic(trees);
      },
    }),
  },
  {
    fault: 'a deleted id stays taken',
    rejectedBy: 'delete/leaves-the-id-free',
    override: ({ provider }) => {
      const taken = new Set<string>();
      return {
        deleteInstancesAtomic(trees) {
          for (const id of trees.flatMap(({ instanceIds }) => instanceIds)) taken.add(id);
          return provider.deleteInstancesAtomic(trees);
        },
        createInstances: async (instances) =>
          instances.some(({ instanceId }) => taken.has(instanceId))
            ? instances.map(() => ({ kind: 'exists' as const }))
            : provider.createInstances(instances),
      };
    },
  },
  {
    fault: 'the key of a deleted instance is reused',
    rejectedBy: 'delete/leaves-the-id-free',
    override: (intact) => afterDeletions(intact, 'DELETE FROM sqlite_sequence'),
  },
  {
    fault: 'only the first 1,000 instances of a tree are deleted',
    rejectedBy: 'delete/a-large-tree-goes-at-one-moment',
    override: (intact) =>
      editTrees(intact, (tree) => ({ ...tree, instanceIds: tree.instanceIds.slice(0, 1_000) })),
  },
  {
    fault: 'deleted rows are counted in a separate transaction before the deletion',
    rejectedBy: 'delete/concurrent-deletions-count-once',
    override: ({ provider }) => ({
      async deleteInstancesAtomic(trees) {
        const dryRun = trees.map((tree) => ({ ...tree, dryRun: true }));
        const counted = await provider.deleteInstancesAtomic(dryRun);
        await provider.deleteInstancesAtomic(trees);
        return counted;
      },
    }),
  },
  {
    fault: 'a refused deletion deletes the instance row',
    rejectedBy: 'delete/a-start-at-the-same-time-is-whole',
    override: (intact) => afterDeletions(intact, 'DELETE FROM instances'),
  },
  {
    fault: 'waiting callers are not notified of a deletion',
    rejectedBy: 'delete/notifies-waiting-clients',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'finished') listener(hint);
        }),
    }),
  },
  {
    fault: 'workers are not notified when their work is deleted',
    rejectedBy: 'delete/notifies-running-handlers',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'cancelRequested') listener(hint);
        }),
    }),
  },
  {
    fault: 'renewals of deleted work do not report the deletion',
    rejectedBy: 'delete/notifies-running-handlers',
    override: (intact) => afterDeletions(intact, 'DELETE FROM tombstones'),
  },
  {
    fault: 'tombstones of deleted work never expire',
    rejectedBy: 'delete/notifies-running-handlers',
    override: (intact) =>
      afterDeletions(intact, 'UPDATE tombstones SET locked_until = 9007199254740991'),
  },
  {
    fault: 'workers with expired claims are notified of a deletion',
    rejectedBy: 'delete/notifies-running-handlers',
    override: (intact) =>
      beforeDeletions(
        intact,
        `UPDATE worker_queue SET locked_until = locked_until + 100000 WHERE lock_token IS NOT NULL`,
      ),
  },
  {
    fault: 'workers of abandoned activities are not notified of a deletion',
    rejectedBy: 'delete/tells-of-work-that-outlived-its-instance',
    override: (intact) =>
      beforeDeletions(intact, `DELETE FROM worker_queue WHERE cancellation = 'abandon'`),
  },
];
