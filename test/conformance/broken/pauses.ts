import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Runs SQL on the database right after a pause. */
function afterPauses({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async pauseInstances(requests) {
      const results = await provider.pauseInstances(requests);
      db.exec(sql);
      return results;
    },
  };
}

/** Runs SQL on the database right after a resume. */
function afterResumes({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async resumeInstances(requests) {
      const results = await provider.resumeInstances(requests);
      db.exec(sql);
      return results;
    },
  };
}

/** Runs SQL on the database right after acks of turns. */
function afterAcks({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async ackOrchestrationItems(acks) {
      const results = await provider.ackOrchestrationItems(acks);
      db.exec(sql);
      return results;
    },
  };
}

/** Runs turns of the fast path as if nothing were paused. */
function ignorePausesInFastTurns({ provider, db }: Intact): Partial<Provider> {
  return {
    ackTurns(acks) {
      db.exec('UPDATE instances SET paused_at = NULL; DELETE FROM paused_definitions');
      return provider.ackTurns(acks);
    },
  };
}

export const brokenPauses: readonly BrokenProvider[] = [
  {
    fault: 'a claim of turns ignores the pause of an instance',
    rejectedBy: 'pause/no-turn-is-claimed',
    override: (intact) =>
      afterPauses(intact, 'UPDATE instance_locks SET definition_key = abs(definition_key)'),
  },
  {
    fault: 'a claim of work ignores the pause of an instance',
    rejectedBy: 'pause/no-work-is-claimed',
    override: (intact) =>
      afterPauses(intact, 'UPDATE worker_queue SET definition_key = abs(definition_key)'),
  },
  {
    fault: 'a pause keeps canceled work whose claim was lost',
    rejectedBy: 'pause/canceled-work-is-ended',
    override: (intact) =>
      afterPauses(
        intact,
        'UPDATE worker_queue SET next_at = next_at + 1e12 WHERE cancel_requested',
      ),
  },
  {
    fault: 'a fast turn ignores the pause of its instance',
    rejectedBy: 'pause/a-fast-turn-is-rejected',
    override: ignorePausesInFastTurns,
  },
  {
    fault: 'a fast turn ignores the pause of its definition',
    rejectedBy: 'pause/a-fast-turn-of-a-definition-is-rejected',
    override: ignorePausesInFastTurns,
  },
  {
    fault: 'a start runs its first turn although its definition is paused',
    rejectedBy: 'pause/a-first-turn-of-a-definition-is-not-run',
    override: ({ provider, db }) => ({
      createInstances(instances) {
        db.exec('DELETE FROM paused_definitions');
        return provider.createInstances(instances);
      },
    }),
  },
  {
    fault: 'a turn under way claims new work of a paused instance',
    rejectedBy: 'pause/a-turn-under-way-commits',
    override: ({ provider, db }) => ({
      ackOrchestrationItems(acks) {
        db.exec('UPDATE instances SET paused_at = NULL');
        return provider.ackOrchestrationItems(acks);
      },
    }),
  },
  {
    fault: 'a resume loses messages',
    rejectedBy: 'pause/messages-are-kept',
    override: (intact) => afterResumes(intact, 'DELETE FROM orchestrator_queue'),
  },
  {
    fault: 'a resume loses timers',
    rejectedBy: 'pause/no-turn-is-claimed',
    override: (intact) =>
      afterResumes(intact, `DELETE FROM orchestrator_queue WHERE kind = 'timerFired'`),
  },
  {
    fault: 'a resume loses attempts',
    rejectedBy: 'pause/a-retry-is-kept',
    override: (intact) => afterResumes(intact, 'DELETE FROM worker_queue WHERE failures > 0'),
  },
  {
    fault: 'a resume makes a retry due before its delay',
    rejectedBy: 'pause/a-retry-is-kept',
    override: (intact) => afterResumes(intact, 'UPDATE worker_queue SET next_at = 0'),
  },
  {
    fault: 'the pause of a deleted instance applies to the next one with its id',
    rejectedBy: 'pause/does-not-survive-a-deletion',
    override: ({ provider, db }) => {
      let hasPaused = false;
      return {
        pauseInstances(requests) {
          hasPaused = true;
          return provider.pauseInstances(requests);
        },
        async createInstances(instances) {
          const results = await provider.createInstances(instances);
          if (hasPaused) db.exec('UPDATE instances SET paused_at = 1');
          return results;
        },
      };
    },
  },
  {
    fault: 'a cancel leaves the instance paused, so that it never ends',
    rejectedBy: 'pause/a-cancel-ends-the-pause',
    override: ({ provider, db }) => ({
      async requestCancel(requests) {
        const results = await provider.requestCancel(requests);
        db.exec(`UPDATE instance_locks SET definition_key = -abs(definition_key);
          UPDATE worker_queue SET definition_key = -abs(definition_key)`);
        return results;
      },
    }),
  },
  {
    fault: 'a turn parks its instance after its parent has canceled it in the same batch',
    rejectedBy: 'pause/a-cancel-in-the-batch-of-a-turn',
    override: (intact) =>
      afterAcks(
        intact,
        `UPDATE instance_locks SET definition_key = -abs(definition_key) WHERE instance_key IN (
           SELECT instance_key FROM instances WHERE status = 'canceling')`,
      ),
  },
  {
    fault: 'a child that is canceled by the turn that starts it stays paused',
    rejectedBy: 'pause/a-child-canceled-by-the-turn-that-starts-it',
    override: (intact) =>
      afterAcks(intact, `UPDATE instances SET paused_at = 1 WHERE status = 'canceled'`),
  },
  {
    fault: 'a second pause overwrites the first reason',
    rejectedBy: 'pause/the-first-reason-is-kept',
    override: ({ provider, db }) => ({
      async pauseInstances(requests) {
        const results = await provider.pauseInstances(requests);
        const overwrite = db.prepare('UPDATE instances SET paused_reason = ?');
        for (const { reason } of requests) overwrite.run(reason);
        return results;
      },
    }),
  },
  {
    fault: 'a pause is not recorded in the audit log',
    rejectedBy: 'pause/is-audited',
    override: ({ provider }) => ({
      pauseInstances: (requests) =>
        provider.pauseInstances(requests.map(({ audit: _audit, ...request }) => request)),
    }),
  },
];
