import { randomToken } from '../../../src/model/values/random-id.ts';
import type { TreeDeletion } from '../../../src/providers/contract/management.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

function editTrees(
  { provider }: Intact,
  edit: (tree: TreeDeletion) => TreeDeletion,
): Partial<Provider> {
  return { deleteInstancesAtomic: (trees) => provider.deleteInstancesAtomic(trees.map(edit)) };
}

/** Writes a record for every entry, even if its deletion is refused. */
function alwaysRecord({ provider, db }: Intact): Partial<Provider> {
  const insert = db.prepare(
    `INSERT OR IGNORE INTO audit (audit_id, action, filter, at) VALUES (?, 'delete', '{}', 0)`,
  );
  return {
    deleteInstancesAtomic(trees) {
      for (const { audit } of trees) if (audit !== undefined) insert.run(audit.auditId);
      return provider.deleteInstancesAtomic(trees);
    },
  };
}

export const brokenAudits: readonly BrokenProvider[] = [
  {
    fault: 'a deletion is not recorded',
    rejectedBy: 'audit/keeps-who-what-and-how-much',
    override: (intact) => editTrees(intact, ({ audit: _audit, ...tree }) => tree),
  },
  {
    fault: 'the audit record of a deletion has no event count',
    rejectedBy: 'audit/keeps-who-what-and-how-much',
    override: ({ provider }) => ({
      listAudit: async (params) =>
        (await provider.listAudit(params)).map((record) => ({ ...record, eventsDeleted: 0 })),
    }),
  },
  {
    fault: 'every transaction of one operation writes its own audit record',
    rejectedBy: 'audit/one-operation-has-one-record',
    override: (intact) =>
      editTrees(intact, ({ audit, ...tree }) =>
        audit === undefined ? tree : { ...tree, audit: { ...audit, auditId: randomToken() } },
      ),
  },
  {
    fault: 'a deletion that deletes nothing is recorded',
    rejectedBy: 'audit/nothing-taken-nothing-recorded',
    override: alwaysRecord,
  },
  {
    fault: 'audit records are listed oldest first',
    rejectedBy: 'audit/comes-in-pages-newest-first',
    override: ({ provider }) => ({
      listAudit: async (params) => (await provider.listAudit(params)).toReversed(),
    }),
  },
  {
    fault: 'every page of the audit returns the first page',
    rejectedBy: 'audit/comes-in-pages-newest-first',
    override: ({ provider }) => {
      let pages = 0;
      return {
        async listAudit({ limit }) {
          pages += 1;
          return pages > 9 ? [] : provider.listAudit({ limit });
        },
      };
    },
  },
  {
    fault: 'the audit is never trimmed',
    rejectedBy: 'audit/is-bounded',
    override: ({ db }) => {
      db.exec('CREATE TRIGGER kept BEFORE DELETE ON audit BEGIN SELECT RAISE(IGNORE); END');
      return {};
    },
  },
  {
    fault: 'the audit keeps only 1,000 records',
    rejectedBy: 'audit/is-bounded',
    override: ({ provider }) => ({
      listAudit: async (params) => (await provider.listAudit(params)).slice(0, 1_000),
    }),
  },
];
