import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Ends the leases of rows that match a condition, and deletes the processes. */
function endingLeases({ db, clock }: Intact, condition: string, more = '') {
  return async (processIds: readonly string[]): Promise<number> => {
    let ended = 0;
    for (const table of ['worker_queue', 'instance_locks']) {
      ended += db
        .prepare(
          `UPDATE ${table} SET locked_until = :now, next_at = :now ${more}
           WHERE lock_token IS NOT NULL AND locked_until > :now AND ${condition}`,
        )
        .run({ now: clock.now(), ids: JSON.stringify(processIds) }).changes;
    }
    db.prepare('DELETE FROM processes WHERE process_id IN (SELECT value FROM json_each(?))').run(
      JSON.stringify(processIds),
    );
    return ended;
  };
}

const isOfDeadProcess = 'substr(lock_token, 1, 8) IN (SELECT value FROM json_each(:ids))';

export const brokenTakeovers: readonly BrokenProvider[] = [
  {
    fault: 'listProcesses() ignores the host',
    rejectedBy: 'process/is-listed-for-its-host',
    override: ({ db }) => ({
      listProcesses: async () =>
        db
          .prepare<
            [],
            { readonly processId: string; readonly pid: number; readonly startTime: string }
          >('SELECT process_id AS processId, pid, start_time AS startTime FROM processes')
          .all(),
    }),
  },
  {
    fault: 'the start time of a process is not stored',
    rejectedBy: 'process/is-listed-for-its-host',
    override: ({ provider }) => ({
      registerProcess: (process) => provider.registerProcess({ ...process, startTime: '' }),
    }),
  },
  {
    fault: 'a second registration of a process is ignored',
    rejectedBy: 'process/is-registered-once',
    override: ({ provider }) => {
      let isRegistered = false;
      return {
        async registerProcess(process) {
          if (!isRegistered) await provider.registerProcess(process);
          isRegistered = true;
        },
      };
    },
  },
  {
    fault: 'registered processes are never deleted',
    rejectedBy: 'process/is-forgotten-after-a-day',
    override: ({ provider, db }) => ({
      async registerProcess(process) {
        db.prepare('UPDATE processes SET registered_at = 1e15').run();
        await provider.registerProcess(process);
      },
    }),
  },
  {
    fault: 'unregisterProcess() deletes every process',
    rejectedBy: 'process/leaves-alone',
    override: ({ db }) => ({
      unregisterProcess: async () => void db.prepare('DELETE FROM processes').run(),
    }),
  },
  {
    fault: 'a takeover ends no lease',
    rejectedBy: 'takeover/ends-the-claims-of-the-dead',
    override: (intact) => ({ takeOverClaims: endingLeases(intact, 'FALSE') }),
  },
  {
    fault: 'a takeover leaves the process in the list',
    rejectedBy: 'takeover/ends-the-claims-of-the-dead',
    override: (intact) => {
      const end = endingLeases(intact, isOfDeadProcess);
      return {
        async takeOverClaims(processIds) {
          const kept = intact.db.prepare<[], object>('SELECT * FROM processes').all();
          const ended = await end(processIds);
          for (const row of kept) {
            const columns = Object.keys(row);
            intact.db
              .prepare(
                `INSERT OR IGNORE INTO processes (${columns.join(', ')}) VALUES (${columns.map((name) => `:${name}`).join(', ')})`,
              )
              .run(row);
          }
          return ended;
        },
      };
    },
  },
  {
    fault: 'a takeover decrements the claim count',
    rejectedBy: 'takeover/counts-as-an-expired-lease',
    override: (intact) => ({
      takeOverClaims: endingLeases(intact, isOfDeadProcess, ', claims = claims - 1'),
    }),
  },
  {
    fault: 'a takeover ends only first claims',
    rejectedBy: 'takeover/takes-renewed-claims',
    override: (intact) => ({
      takeOverClaims: endingLeases(intact, `${isOfDeadProcess} AND claims = 1`),
    }),
  },
  {
    fault: 'a takeover ends the leases of live processes',
    rejectedBy: 'takeover/spares-the-living',
    override: (intact) => ({ takeOverClaims: endingLeases(intact, 'TRUE') }),
  },
  {
    fault: 'a takeover deletes named leases',
    rejectedBy: 'takeover/leaves-sessions-and-leases',
    override: ({ provider, db }) => ({
      async takeOverClaims(processIds) {
        db.prepare('DELETE FROM leases').run();
        return provider.takeOverClaims(processIds);
      },
    }),
  },
];
