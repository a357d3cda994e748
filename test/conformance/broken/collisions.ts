/** Providers whose starts, event keys and timeouts are wrong when an instance exists, has ended, or belongs to another. */
import type { NewInstance } from '../../../src/providers/contract/instances.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';
import { beforeTimeouts, editStarts } from './starting.ts';
import { editChildren, editJobs, editTasks } from './turn-starts.ts';

interface ExistingRow {
  readonly name: string;
  readonly hasEnded: 0 | 1;
}

function findExisting({ db }: Intact, instanceId: string): ExistingRow | undefined {
  return db
    .prepare<[string], ExistingRow>(
      `SELECT name, ended_at IS NOT NULL AS hasEnded FROM instances JOIN definitions USING (definition_key)
       WHERE instance_id = ?`,
    )
    .get(instanceId);
}

/** Changes the results of starts. */
function editResults(
  { provider }: Intact,
  edit: (result: Awaited<ReturnType<Provider['createInstances']>>[number]) => typeof result,
): Partial<Provider> {
  return {
    createInstances: async (instances) => (await provider.createInstances(instances)).map(edit),
  };
}

/** Runs SQL right after timeouts are applied. */
function afterTimeouts({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async applyTimeouts(request) {
      const applied = await provider.applyTimeouts(request);
      db.exec(sql);
      return applied;
    },
  };
}

function withoutTimeout<Start extends { readonly timeoutMs?: number }>({
  timeoutMs: _timeout,
  ...rest
}: Start): Omit<Start, 'timeoutMs'> {
  return rest;
}

export const brokenCollisions: readonly BrokenProvider[] = [
  {
    fault: 'a replacement leaves the children of the replaced execution',
    rejectedBy: 'conflict/ends-the-tree',
    override: ({ provider, db }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        db.exec(
          `UPDATE instances SET status = 'pending', ended_at = NULL, terminated_at = NULL
           WHERE parent_instance_id IS NOT NULL AND status = 'terminated'`,
        );
        return results;
      },
    }),
  },
  {
    fault: 'an ended instance is not replaced',
    rejectedBy: 'conflict/replaces-an-ended-instance',
    override: (intact) =>
      editStarts(intact, ({ onConflict, ...rest }) =>
        findExisting(intact, rest.instanceId)?.hasEnded === 1
          ? rest
          : { ...rest, ...(onConflict !== undefined && { onConflict }) },
      ),
  },
  {
    fault: '`onConflict` ignores the name of the existing instance',
    rejectedBy: 'conflict/another-name-stays',
    override: (intact) =>
      editStarts(intact, (instance) => ({
        ...instance,
        name: findExisting(intact, instance.instanceId)?.name ?? instance.name,
      })),
  },
  {
    fault: '`onConflict` of a task ignores the name of the existing run',
    rejectedBy: 'task-conflict/another-name-stays',
    override: (intact) =>
      editTasks(intact, (task) => ({
        ...task,
        name: findExisting(intact, task.instanceId)?.name ?? task.name,
      })),
  },
  {
    fault: 'the event of a start ignores the limit of pending events',
    rejectedBy: 'start-event/reaches-a-live-instance',
    override: (intact) =>
      editStarts(intact, (instance): NewInstance => {
        if (instance.event === undefined) return instance;
        const { maxPending: _limit, ...event } = instance.event;
        return { ...instance, event };
      }),
  },
  {
    fault: 'a start acknowledges its event at an ended instance',
    rejectedBy: 'start-event/is-refused-after-the-end',
    override: (intact) =>
      editResults(intact, (result) =>
        result.kind === 'exists' && result.event === 'over'
          ? { ...result, event: 'enqueued' }
          : result,
      ),
  },
  {
    fault: 'every start with an event reports a new instance',
    rejectedBy: 'start-event/concurrent-starts-have-one-instance',
    override: (intact) =>
      editResults(intact, (result) =>
        result.kind === 'exists' && result.event === 'enqueued'
          ? { kind: 'created', instanceKey: 1, claimed: [] }
          : result,
      ),
  },
  {
    fault: 'a refused event uses its key',
    rejectedBy: 'event-key/a-refused-event-keeps-its-key-free',
    override: ({ provider, db }) => ({
      async enqueueMessages(messages) {
        const results = await provider.enqueueMessages(messages);
        const insert = db.prepare(
          'INSERT INTO event_keys SELECT instance_key, ? FROM instances WHERE instance_id = ?',
        );
        for (const [index, { instanceId, key }] of messages.entries())
          if (results[index] === 'full') insert.run(key, instanceId);
        return results;
      },
    }),
  },
  {
    fault: 'an event key belongs to the id, also after a deletion',
    rejectedBy: 'event-key/is-deleted-with-its-instance',
    override({ provider }) {
      const seen = new Set<string>();
      return {
        enqueueMessages: async (messages) =>
          (await provider.enqueueMessages(messages)).map((result, index) => {
            const { instanceId, key = '' } = messages[index] ?? { instanceId: '' };
            const isKnown = key !== '' && seen.has(`${instanceId}/${key}`);
            seen.add(`${instanceId}/${key}`);
            return isKnown ? 'repeated' : result;
          }),
      };
    },
  },
  {
    fault: 'a replacement deletes the event keys of its instance',
    rejectedBy: 'event-key/survives-a-replacement',
    override: ({ provider, db }) => ({
      createInstances(instances) {
        db.exec('DELETE FROM event_keys');
        return provider.createInstances(instances);
      },
    }),
  },
  {
    fault: 'an event key belongs to one execution',
    rejectedBy: 'event-key/survives-continue-as-new',
    override: ({ provider, db }) => ({
      enqueueMessages(messages) {
        db.exec(
          `DELETE FROM event_keys WHERE instance_key IN
             (SELECT instance_key FROM instances WHERE execution_id > 1)`,
        );
        return provider.enqueueMessages(messages);
      },
    }),
  },
  {
    fault: 'a start with a first turn loses its timeout',
    rejectedBy: 'timeout/counts-with-a-first-turn',
    override: (intact) =>
      editStarts(intact, (instance) =>
        instance.firstTurn === undefined ? instance : withoutTimeout(instance),
      ),
  },
  {
    fault: 'a child and a detached instance lose their timeouts',
    rejectedBy: 'timeout/of-children-and-detached-starts',
    override: (intact) => editChildren(intact, withoutTimeout),
  },
  {
    fault: 'a task run loses its timeout',
    rejectedBy: 'timeout/of-tasks',
    override: (intact) => editTasks(intact, withoutTimeout),
  },
  {
    fault: 'a job loses the timeout of its run',
    rejectedBy: 'timeout/of-jobs',
    override: (intact) => editJobs(intact, withoutTimeout),
  },
  {
    fault: 'a timeout does not flag claimed work',
    rejectedBy: 'timeout/flags-claimed-work',
    override: (intact) =>
      afterTimeouts(intact, 'UPDATE worker_queue SET cancel_requested = 0, cancel_trigger = NULL'),
  },
  {
    fault: 'the parent of a child that timed out gets another trigger',
    rejectedBy: 'timeout/tells-the-parent',
    override: (intact) =>
      afterTimeouts(
        intact,
        `UPDATE orchestrator_queue SET data = replace(data, '"timeout"', '"cancel"')`,
      ),
  },
  {
    fault: 'a timeout does not survive a continue-as-new',
    rejectedBy: 'timeout/survives-continue-as-new',
    override: (intact) =>
      beforeTimeouts(
        intact,
        `UPDATE instance_deadlines SET due_at = NULL WHERE instance_key IN
           (SELECT instance_key FROM instances WHERE execution_id > 1)`,
      ),
  },
  {
    fault: 'a timeout is counted by every call',
    rejectedBy: 'timeout/is-applied-once',
    override({ provider }) {
      let most = 0;
      return {
        async applyTimeouts(request) {
          const applied = await provider.applyTimeouts(request);
          most = Math.max(most, applied.canceled);
          return { ...applied, canceled: most };
        },
      };
    },
  },
  {
    fault: 'timeouts are applied beyond the limit',
    rejectedBy: 'timeout/returns-the-next',
    override: ({ provider }) => ({
      applyTimeouts: (request) => provider.applyTimeouts({ ...request, limit: 1_000 }),
    }),
  },
  {
    fault: 'a deletion leaves the timeout of the instance',
    rejectedBy: 'timeout/is-deleted-with-its-instance',
    override({ db }) {
      db.exec(
        `CREATE TRIGGER IF NOT EXISTS kept_deadlines BEFORE DELETE ON instance_deadlines
         BEGIN SELECT RAISE(IGNORE); END`,
      );
      return {};
    },
  },
];
