import type { ExecutionPrune } from '../../../src/providers/contract/management.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Changes the arguments of a prune. */
function editPrunes(
  { provider }: Intact,
  edit: (prune: ExecutionPrune) => ExecutionPrune,
): Partial<Provider> {
  return { pruneExecutionsAtomic: (prunes) => provider.pruneExecutionsAtomic(prunes.map(edit)) };
}

/** Runs SQL on the database right after a prune. */
function afterPrunes({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async pruneExecutionsAtomic(prunes) {
      const results = await provider.pruneExecutionsAtomic(prunes);
      db.exec(sql);
      return results;
    },
  };
}

/** Restores the deleted rows of a table. */
function keeping({ provider, db }: Intact, table: string): Partial<Provider> {
  return {
    async pruneExecutionsAtomic(prunes) {
      db.exec(`CREATE TEMP TABLE kept AS SELECT * FROM ${table}`);
      const results = await provider.pruneExecutionsAtomic(prunes);
      db.exec(`INSERT OR IGNORE INTO ${table} SELECT * FROM temp.kept; DROP TABLE temp.kept`);
      return results;
    },
  };
}

export const brokenPrunes: readonly BrokenProvider[] = [
  {
    fault: 'a pruned execution is still listed',
    rejectedBy: 'prune/takes-executions-with-their-history',
    override: (intact) => keeping(intact, 'executions'),
  },
  {
    fault: 'the history of a pruned execution stays readable',
    rejectedBy: 'prune/takes-executions-with-their-history',
    override: (intact) => {
      const { db } = intact;
      const read = db.prepare<[number], never>(
        'SELECT kind, at, data, payload FROM history WHERE execution_id = ? ORDER BY event_id',
      );
      return {
        ...keeping(intact, 'history'),
        readInstanceHistory: async ({ executionId }) => read.all(executionId),
      };
    },
  },
  {
    fault: 'a prune deletes the histories of the executions that it keeps',
    rejectedBy: 'prune/takes-executions-with-their-history',
    override: (intact) => afterPrunes(intact, 'DELETE FROM history WHERE execution_id > 1'),
  },
  {
    fault: 'a prune deletes the history of the current execution',
    rejectedBy: 'prune/never-takes-the-current-one',
    override: (intact) =>
      afterPrunes(
        intact,
        `DELETE FROM history WHERE (instance_key, execution_id) IN
           (SELECT instance_key, execution_id FROM instances)`,
      ),
  },
  {
    fault: 'a prune releases the claim of a running turn',
    rejectedBy: 'prune/leaves-a-turn-under-way',
    override: (intact) =>
      afterPrunes(intact, 'UPDATE instance_locks SET lock_token = NULL, locked_until = NULL'),
  },
  {
    fault: 'a prune drops the clean-up limit of a canceling instance',
    rejectedBy: 'prune/leaves-the-time-to-clean-up',
    override: (intact) => afterPrunes(intact, 'UPDATE instance_locks SET cleanup_at = NULL'),
  },
  {
    fault: 'an instance can be claimed for messages that were pruned',
    rejectedBy: 'prune/leaves-the-time-to-clean-up',
    override: (intact) => afterPrunes(intact, 'UPDATE instance_locks SET next_at = 0'),
  },
  {
    fault: 'keepLast does not count the current execution',
    rejectedBy: 'prune/spares-the-last',
    override: (intact) =>
      editPrunes(intact, ({ keepLast, ...prune }) =>
        keepLast === undefined ? prune : { ...prune, keepLast: keepLast + 1 },
      ),
  },
  {
    fault: 'a prune ignores keepLast',
    rejectedBy: 'prune/spares-the-last',
    override: (intact) => editPrunes(intact, ({ keepLast: _keepLast, ...prune }) => prune),
  },
  {
    fault: 'endedBefore includes executions that ended at that time',
    rejectedBy: 'prune/takes-those-that-ended-before',
    override: (intact) =>
      editPrunes(intact, ({ endedBefore, ...prune }) =>
        endedBefore === undefined ? prune : { ...prune, endedBefore: endedBefore + 1 },
      ),
  },
  {
    fault: 'a prune ignores endedBefore',
    rejectedBy: 'prune/takes-those-that-ended-before',
    override: (intact) => editPrunes(intact, ({ endedBefore: _endedBefore, ...prune }) => prune),
  },
  {
    fault: 'conditions of a prune are combined with OR',
    rejectedBy: 'prune/all-conditions-must-hold',
    override: ({ provider }) => ({
      async pruneExecutionsAtomic(prunes) {
        await provider.pruneExecutionsAtomic(
          prunes.map(({ keepLast: _keepLast, ...prune }) => prune),
        );
        return provider.pruneExecutionsAtomic(
          prunes.map(({ endedBefore: _endedBefore, ...prune }) => prune),
        );
      },
    }),
  },
  {
    fault: 'a prune ignores its limit',
    rejectedBy: 'prune/goes-on-in-steps',
    override: (intact) => editPrunes(intact, (prune) => ({ ...prune, max: 1_000 })),
  },
  {
    fault: 'a prune returns left: false while executions are left',
    rejectedBy: 'prune/goes-on-in-steps',
    override: ({ provider }) => ({
      pruneExecutionsAtomic: async (prunes) =>
        (await provider.pruneExecutionsAtomic(prunes)).map((result) => ({
          ...result,
          left: false,
        })),
    }),
  },
  {
    fault: 'the work items of a pruned execution are not deleted',
    rejectedBy: 'prune/takes-outstanding-items',
    override: (intact) => keeping(intact, 'worker_queue'),
  },
  {
    fault: 'messages to a pruned execution are not deleted',
    rejectedBy: 'prune/takes-outstanding-items',
    override: (intact) => keeping(intact, 'orchestrator_queue'),
  },
  {
    fault: 'a prune deletes all work items of the instance',
    rejectedBy: 'prune/takes-outstanding-items',
    override: (intact) => afterPrunes(intact, 'DELETE FROM worker_queue'),
  },
  {
    fault: 'workers are not notified when their work is pruned',
    rejectedBy: 'prune/notifies-running-handlers',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'cancelRequested') listener(hint);
        }),
    }),
  },
  {
    fault: 'renewals of pruned work do not report the deletion',
    rejectedBy: 'prune/notifies-running-handlers',
    override: (intact) => afterPrunes(intact, 'DELETE FROM tombstones'),
  },
  {
    fault: 'a canceling instance never ends after its work was pruned',
    rejectedBy: 'prune/lets-a-canceled-end-come',
    override: (intact) =>
      afterPrunes(
        intact,
        `UPDATE instances SET status = 'canceling', ended_at = NULL, canceled_at = NULL, closing_reason = 'x'
         WHERE status = 'canceled'`,
      ),
  },
  {
    fault: 'a prune ignores the incarnation',
    rejectedBy: 'prune/another-life-is-not-found',
    override: (intact) => editPrunes(intact, ({ incarnation: _life, ...prune }) => prune),
  },
  {
    fault: 'a prune returns found: true for an unknown instance',
    rejectedBy: 'prune/another-life-is-not-found',
    override: ({ provider }) => ({
      pruneExecutionsAtomic: async (prunes) =>
        (await provider.pruneExecutionsAtomic(prunes)).map((result) => ({
          ...result,
          found: true,
        })),
    }),
  },
  {
    fault: 'the dry run of a prune prunes',
    rejectedBy: 'prune/a-dry-run-changes-nothing',
    override: (intact) => editPrunes(intact, ({ dryRun: _dryRun, ...prune }) => prune),
  },
  {
    fault: 'a dry run batched with prunes prunes',
    rejectedBy: 'prune/a-dry-run-changes-nothing',
    override: ({ provider }) => ({
      pruneExecutionsAtomic: (prunes) =>
        provider.pruneExecutionsAtomic(
          prunes.every(({ dryRun }) => dryRun === true)
            ? prunes
            : prunes.map(({ dryRun: _dryRun, ...prune }) => prune),
        ),
    }),
  },
  {
    fault: 'a prune is not recorded',
    rejectedBy: 'prune/each-of-a-batch-by-its-own-conditions',
    override: (intact) => editPrunes(intact, ({ audit: _audit, ...prune }) => prune),
  },
  {
    fault: 'a batch of prunes uses the conditions of its first entry',
    rejectedBy: 'prune/each-of-a-batch-by-its-own-conditions',
    override: ({ provider }) => ({
      pruneExecutionsAtomic: (prunes) =>
        provider.pruneExecutionsAtomic(
          prunes.map(({ instanceId, ...own }) => ({ ...own, ...prunes[0], instanceId })),
        ),
    }),
  },
];
