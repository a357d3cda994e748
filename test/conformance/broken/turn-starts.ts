import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { NewJob } from '../../../src/providers/contract/sessions.ts';
import type { NewTask } from '../../../src/providers/contract/tasks.ts';
import type { NewChild, Turn } from '../../../src/providers/contract/turn.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Changes the children of turns before the store gets them. */
export function editChildren(
  { provider }: Intact,
  edit: (child: NewChild) => NewChild,
): Partial<Provider> {
  const edited = (turn: Turn): Turn => ({ ...turn, children: turn.children.map(edit) });
  return {
    createInstances: (instances) =>
      provider.createInstances(
        instances.map((instance) =>
          instance.firstTurn === undefined
            ? instance
            : { ...instance, firstTurn: edited(instance.firstTurn) },
        ),
      ),
    ackOrchestrationItems: (acks) =>
      provider.ackOrchestrationItems(acks.map((ack) => ({ ...ack, turn: edited(ack.turn) }))),
  };
}

/** Changes tasks before the store gets them. */
export function editTasks(
  { provider }: Intact,
  edit: (task: NewTask) => NewTask,
): Partial<Provider> {
  return { createTasks: (tasks) => provider.createTasks(tasks.map(edit)) };
}

/** Runs SQL right after tasks are created. */
function afterTasks({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async createTasks(tasks) {
      const results = await provider.createTasks(tasks);
      db.exec(sql);
      return results;
    },
  };
}

/** Changes the orchestrations of jobs before the store gets them. */
export function editJobs(
  { provider }: Intact,
  edit: (instance: JobInstance) => JobInstance,
): Partial<Provider> {
  return {
    submitJobs: (jobs) =>
      provider.submitJobs(
        jobs.map((job) => (job.kind === 'task' ? job : { ...job, instance: edit(job.instance) })),
      ),
  };
}

type JobInstance = Extract<NewJob, { readonly kind: 'orchestration' }>['instance'];

export const brokenTurnStarts: readonly BrokenProvider[] = [
  {
    fault: 'a job drops its event',
    rejectedBy: 'job/brings-an-event',
    override: (intact) => editJobs(intact, ({ event: _event, ...rest }) => rest),
  },
  {
    fault: 'a job ignores `terminateExisting`',
    rejectedBy: 'job/replaces-a-run',
    override: (intact) => editJobs(intact, ({ onConflict: _plan, ...rest }) => rest),
  },
  {
    fault: 'a replacement loses its start message',
    rejectedBy: 'conflict/replaces-an-instance-that-ends-meanwhile',
    override: ({ provider, db }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        db.exec(
          `DELETE FROM orchestrator_queue WHERE instance_key IN
             (SELECT instance_key FROM instances WHERE execution_id = 2)`,
        );
        return results;
      },
    }),
  },
  {
    fault: 'a start of a turn drops its event',
    rejectedBy: 'turn-start/brings-an-event',
    override: (intact) => editChildren(intact, ({ event: _event, ...rest }) => rest),
  },
  {
    fault: 'a turn confirms an event that was rejected',
    rejectedBy: 'turn-start/raises-at-a-live-instance',
    override: (intact) => editChildren(intact, ({ ifRejected: _rejected, ...rest }) => rest),
  },
  {
    fault: 'a start of a turn ignores onConflict',
    rejectedBy: 'turn-start/uses-or-replaces',
    override: (intact) => editChildren(intact, ({ onConflict: _plan, ...rest }) => rest),
  },
  {
    fault: 'a start of a turn uses what it should replace',
    rejectedBy: 'turn-start/may-replace-its-own-instance',
    override: (intact) =>
      editChildren(intact, (child) =>
        child.onConflict === undefined ? child : { ...child, onConflict: 'useExisting' },
      ),
  },
  {
    fault: 'a replaced child replies to the operation of the first one',
    rejectedBy: 'turn-start/a-child-replaces-an-own-one',
    override: ({ provider, db }) => ({
      async ackOrchestrationItems(acks) {
        const results = await provider.ackOrchestrationItems(acks);
        db.exec('UPDATE instances SET parent_operation = 1 WHERE parent_operation = 3');
        return results;
      },
    }),
  },
  {
    fault: 'a task ignores `useExisting`',
    rejectedBy: 'task-conflict/uses-the-existing',
    override: (intact) =>
      editTasks(intact, ({ onConflict, ...rest }) =>
        onConflict === 'terminateExisting' ? { ...rest, onConflict } : rest,
      ),
  },
  {
    fault: 'a task uses what it should replace',
    rejectedBy: 'task-conflict/replaces-a-held-run',
    override: (intact) =>
      editTasks(intact, (task) =>
        task.onConflict === undefined ? task : { ...task, onConflict: 'useExisting' },
      ),
  },
  {
    fault: 'a replaced task keeps its dedupe key',
    rejectedBy: 'task-conflict/replaces-a-queued-run',
    override: (intact) =>
      afterTasks(
        intact,
        `INSERT OR IGNORE INTO dedupe_keys (definition_key, dedupe_key, instance_key)
         SELECT definition_key, 'k', instance_key FROM instances WHERE execution_id = 2`,
      ),
  },
  {
    fault: 'a replaced task starts before its time',
    rejectedBy: 'task-conflict/replaces-an-ended-run',
    override: (intact) => editTasks(intact, ({ delayMs: _delay, ...rest }) => rest),
  },
  {
    fault: 'a repeat of a replaced task replaces again',
    rejectedBy: 'task-conflict/a-repeat-replaces-nothing',
    override: (intact) =>
      editTasks(intact, (task) => ({ ...task, incarnation: crypto.randomUUID() })),
  },
  {
    fault: 'a replacement drops the handler of a failure',
    rejectedBy: 'task-conflict/waits-for-the-handler-of-failures',
    override: ({ provider, db }) => ({
      createTasks(tasks) {
        if (tasks.some(({ onConflict }) => onConflict !== undefined)) {
          db.exec(
            "DELETE FROM worker_queue WHERE instance_key IN (SELECT instance_key FROM instances WHERE status = 'failed')",
          );
        }
        return provider.createTasks(tasks);
      },
    }),
  },
];
