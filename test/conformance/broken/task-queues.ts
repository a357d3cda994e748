import { ProviderError } from '../../../src/model/failures/errors.ts';
import type { CreateTaskResult, NewTask } from '../../../src/providers/contract/tasks.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Changes tasks before they are created. */
function editTasks({ provider }: Intact, edit: (task: NewTask) => NewTask): Partial<Provider> {
  return { createTasks: (tasks) => provider.createTasks(tasks.map(edit)) };
}

/** Changes the results of createTasks(). */
function editResults(
  { provider }: Intact,
  edit: (result: CreateTaskResult, task: NewTask) => CreateTaskResult,
): Partial<Provider> {
  return {
    async createTasks(tasks) {
      const results = await provider.createTasks(tasks);
      return results.map((result, index) => {
        const task = tasks[index];
        return task === undefined ? result : edit(result, task);
      });
    },
  };
}

/** Runs SQL on the database right after a fetch of work. */
function afterFetches({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async fetchWorkItems(params) {
      const items = await provider.fetchWorkItems(params);
      db.exec(sql);
      return items;
    },
  };
}

/** Creation, claims, priorities, keys and expiry of task runs, each with one guard removed. */
export const brokenTaskQueues: readonly BrokenProvider[] = [
  {
    fault: 'a delay counts from the clock of the process',
    rejectedBy: 'task-create/counts-a-delay-by-its-own-clock',
    override: (intact) =>
      editTasks(intact, ({ delayMs, ...task }) =>
        delayMs === undefined ? task : { ...task, runAt: intact.clock.now() - 5 + delayMs },
      ),
  },
  {
    fault: 'an expiry counts from the creation of a delayed run',
    rejectedBy: 'task-create/counts-an-expiry-from-when-it-may-start',
    override: (intact) =>
      editTasks(intact, ({ expiresInMs, ...task }) =>
        expiresInMs === undefined ? task : { ...task, expiresAt: intact.clock.now() + expiresInMs },
      ),
  },
  {
    fault: 'a task with the id of another task returns exists',
    rejectedBy: 'task-create/another-name-or-input-conflicts',
    override: (intact) =>
      editResults(intact, (result) => (result.kind === 'conflict' ? { kind: 'exists' } : result)),
  },
  {
    fault: 'a task with the name and id of an orchestration returns exists',
    rejectedBy: 'task-create/ids-are-shared-with-orchestrations',
    override: (intact) =>
      editResults(intact, (result, { name }) =>
        result.kind === 'conflict' && result.name === name ? { kind: 'exists' } : result,
      ),
  },
  {
    fault: 'a refused task leaves its row',
    rejectedBy: 'task-create/a-bad-one-spares-its-neighbours',
    override: (intact) => ({
      async createTasks(tasks) {
        const results = await intact.provider.createTasks(tasks);
        const refused = tasks.filter((_, index) => results[index]?.kind === 'refused');
        await intact.provider.createTasks(
          refused.map(({ dedupeKey: _key, ...task }) => ({ ...task, priority: 0 })),
        );
        return results;
      },
    }),
  },
  {
    fault: 'one invalid task fails its whole batch',
    rejectedBy: 'task-create/a-bad-one-spares-its-neighbours',
    override: ({ provider }) => ({
      async createTasks(tasks) {
        const message = 'createTasks: refused.';
        const error = new ProviderError({ operation: 'createTasks', message, retryable: false });
        return tasks.every(({ priority }) => Math.abs(priority) <= 100)
          ? provider.createTasks(tasks)
          : tasks.map(() => ({ kind: 'refused', error }));
      },
    }),
  },
  {
    fault: 'a task run accepts messages',
    rejectedBy: 'task-create/has-no-messages',
    override: ({ db, provider }) => ({
      async enqueueMessages(messages) {
        db.exec('UPDATE instances SET priority = NULL');
        const results = await provider.enqueueMessages(messages);
        db.exec('UPDATE instances SET priority = 0');
        return results;
      },
    }),
  },
  {
    fault: 'a claimed run stays pending',
    rejectedBy: 'task-claim/makes-a-run-running',
    override: (intact) =>
      afterFetches(intact, `UPDATE instances SET status = 'pending' WHERE status = 'running'`),
  },
  {
    fault: 'a run is pending again between attempts',
    rejectedBy: 'task-claim/makes-a-run-running',
    override: ({ provider, db }) => ({
      async retryWorkItems(retries) {
        const results = await provider.retryWorkItems(retries);
        db.exec(`UPDATE instances SET status = 'pending'`);
        return results;
      },
    }),
  },
  {
    fault: 'every attempt resets the start time of a run',
    rejectedBy: 'task-claim/makes-a-run-running',
    override: ({ provider, db, clock }) => ({
      async fetchWorkItems(params) {
        const items = await provider.fetchWorkItems(params);
        db.prepare('UPDATE instances SET started_at = ?').run(clock.now());
        return items;
      },
    }),
  },
  {
    fault: 'task runs are claimed by workers without their code',
    rejectedBy: 'task-claim/only-named-tasks',
    override: ({ provider }) => ({
      fetchWorkItems: ({ tasks: _tasks, ...params }) => provider.fetchWorkItems(params),
    }),
  },
  {
    fault: 'activity names also claim tasks',
    rejectedBy: 'task-claim/only-named-tasks',
    override: ({ provider }) => ({
      fetchWorkItems: ({ names, ...params }) =>
        provider.fetchWorkItems({ ...params, ...(names !== undefined && { names, tasks: names }) }),
    }),
  },
  {
    fault: 'a delayed run is claimed early',
    rejectedBy: 'task-claim/waits-for-its-time',
    override: (intact) => editTasks(intact, ({ runAt: _runAt, ...task }) => task),
  },
  {
    fault: 'a run with a past runAt is claimed before older runs',
    rejectedBy: 'task-claim/a-time-that-has-passed-is-now',
    override: (intact) => ({
      async createTasks(tasks) {
        const results = await intact.provider.createTasks(tasks);
        intact.db.exec(
          `UPDATE worker_queue SET next_at = run_at FROM instances
           WHERE instances.instance_key = worker_queue.instance_key AND run_at IS NOT NULL`,
        );
        return results;
      },
    }),
  },
  {
    fault: 'task runs count as activities in queueDepths()',
    rejectedBy: 'task-claim/figures-keep-tasks-apart',
    override: ({ provider }) => ({
      async queueDepths() {
        const { activities, tasks, ...depths } = await provider.queueDepths();
        return {
          ...depths,
          tasks,
          activities: { ...activities, ready: activities.ready + tasks.ready },
        };
      },
    }),
  },
  {
    fault: 'listInstances() ignores the kind',
    rejectedBy: 'read/list-filters-by-kind',
    override: ({ provider }) => ({
      listInstances: ({ filter: { kind: _kind, ...filter }, ...page }) =>
        provider.listInstances({ filter, ...page }),
    }),
  },
  {
    fault: 'listInstances() ignores the version',
    rejectedBy: 'read/list-filters-by-version',
    override: ({ provider }) => ({
      listInstances: ({ filter: { version: _version, ...filter }, ...page }) =>
        provider.listInstances({ filter, ...page }),
    }),
  },
  {
    fault: 'priorities are ignored',
    rejectedBy: 'priority/higher-first-then-first-in',
    override: (intact) => editTasks(intact, (task) => ({ ...task, priority: 0 })),
  },
  {
    fault: 'the lowest priority is claimed first',
    rejectedBy: 'priority/counts-within-a-batch',
    override: (intact) => editTasks(intact, (task) => ({ ...task, priority: -task.priority })),
  },
  {
    fault: 'priorities apply only within one name',
    rejectedBy: 'priority/counts-across-names',
    override: ({ provider }) => ({
      async fetchWorkItems(params) {
        const items = await provider.fetchWorkItems(params);
        return items.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
      },
    }),
  },
  {
    fault: 'activities ignore their priority',
    rejectedBy: 'priority/counts-across-names',
    override: ({ provider, db }) => ({
      fetchWorkItems(params) {
        db.exec(
          `UPDATE worker_queue SET priority = 0 WHERE definition_key IN
             (SELECT definition_key FROM definitions WHERE kind = 'activity')`,
        );
        return provider.fetchWorkItems(params);
      },
    }),
  },
  {
    fault: 'a delayed run of high priority blocks all lower priorities',
    rejectedBy: 'priority/what-cannot-be-claimed-does-not-stand-in-the-way',
    override: ({ provider, db, clock }) => ({
      async fetchWorkItems(params) {
        const head = db
          .prepare<[], number>('SELECT next_at FROM worker_queue ORDER BY priority DESC LIMIT 1')
          .pluck()
          .get();
        return head !== undefined && head > clock.now() ? [] : provider.fetchWorkItems(params);
      },
    }),
  },
  {
    fault: 'a retry loses its priority',
    rejectedBy: 'priority/stays-over-attempts',
    override: ({ provider, db }) => ({
      async retryWorkItems(retries) {
        const results = await provider.retryWorkItems(retries);
        db.exec('UPDATE worker_queue SET priority = 0 WHERE failures > 0');
        return results;
      },
    }),
  },
  {
    fault: 'two active runs can have one dedupe key',
    rejectedBy: 'key/names-the-active-run',
    override: (intact) => editTasks(intact, ({ dedupeKey: _key, ...task }) => task),
  },
  {
    fault: 'a dedupe key is never freed',
    rejectedBy: 'key/is-free-after-every-end',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER keep BEFORE DELETE ON dedupe_keys BEGIN SELECT RAISE(IGNORE); END`);
      return {};
    },
  },
  {
    fault: 'a cancel request frees the key of a run whose handler runs',
    rejectedBy: 'key/is-held-while-canceling',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER free AFTER UPDATE ON instances WHEN NEW.status = 'canceling'
        BEGIN DELETE FROM dedupe_keys; END`);
      return {};
    },
  },
  {
    fault: 'a terminate frees the key of a run whose handler runs',
    rejectedBy: 'key/is-held-after-a-terminate',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER free AFTER UPDATE ON instances WHEN NEW.status = 'terminated'
        BEGIN DELETE FROM dedupe_keys; END`);
      return {};
    },
  },
  {
    fault: 'a dedupe key is freed between attempts',
    rejectedBy: 'key/is-held-between-attempts',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER free AFTER UPDATE ON worker_queue WHEN NEW.lock_token IS NULL
        BEGIN DELETE FROM dedupe_keys; END`);
      return {};
    },
  },
  {
    fault: 'the on-fail handler keeps the dedupe key',
    rejectedBy: 'key/is-not-held-by-the-handler-for-failures',
    override: ({ db }) => {
      db.exec(`CREATE TRIGGER keep AFTER INSERT ON worker_queue WHEN NEW.operation = 2 BEGIN
        INSERT INTO dedupe_keys SELECT definition_key, dedupe_key, instance_key FROM instances
        WHERE instance_key = NEW.instance_key AND dedupe_key IS NOT NULL; END`);
      return {};
    },
  },
  {
    fault: 'the end of a run frees the dedupe key of another run',
    rejectedBy: 'key/is-not-held-by-the-handler-for-failures',
    override: ({ db }) => {
      db.exec(
        `CREATE TRIGGER free AFTER DELETE ON worker_queue BEGIN DELETE FROM dedupe_keys; END`,
      );
      return {};
    },
  },
  {
    fault: 'a dedupe key is shared by all task names',
    rejectedBy: 'key/belongs-to-its-name',
    override: (intact) => ({
      async createTasks(tasks) {
        const holder = intact.db
          .prepare<[string], string>('SELECT instance_id FROM instances WHERE dedupe_key = ?')
          .pluck();
        const [task] = tasks;
        const instanceId = holder.get(task?.dedupeKey ?? '');
        return instanceId === undefined
          ? intact.provider.createTasks(tasks)
          : [{ kind: 'active', instanceId }];
      },
    }),
  },
  {
    fault: 'a repeated creation with a dedupe key returns active instead of exists',
    rejectedBy: 'key/a-known-id-comes-first',
    override: (intact) =>
      editResults(intact, (result, { dedupeKey, instanceId }) =>
        result.kind === 'exists' && dedupeKey !== undefined
          ? { kind: 'active', instanceId }
          : result,
      ),
  },
  {
    fault: 'a creation that loses its dedupe key returns its own id',
    rejectedBy: 'key/concurrent-creations-have-one-winner',
    override: (intact) =>
      editResults(intact, (result, { instanceId }) =>
        result.kind === 'active' ? { kind: 'active', instanceId } : result,
      ),
  },
  {
    fault: 'runs never expire',
    rejectedBy: 'expiry/ends-what-has-not-started',
    override: (intact) => editTasks(intact, ({ expiresAt: _expiresAt, ...task }) => task),
  },
  {
    fault: 'runs expire one millisecond too early',
    rejectedBy: 'expiry/ends-what-has-not-started',
    override: (intact) =>
      editTasks(intact, (task) =>
        task.expiresAt === undefined ? task : { ...task, expiresAt: task.expiresAt - 1 },
      ),
  },
  {
    fault: 'a run expires only when a worker with its code fetches',
    rejectedBy: 'expiry/needs-no-worker-that-knows-it',
    override: ({ provider }) => ({
      fetchWorkItems: async (params) =>
        params.tasks?.length === 0 ? [] : provider.fetchWorkItems(params),
    }),
  },
  {
    fault: 'an expiry does not end a waiting fetch',
    rejectedBy: 'expiry/wakes-who-waits',
    override: ({ provider, clock }) => ({
      async fetchWorkItems({ waitMs, ...params }) {
        if (waitMs > 0) {
          await new Promise<void>((resolve) => clock.setTimer(waitMs, resolve));
        }
        return provider.fetchWorkItems({ ...params, waitMs: 0 });
      },
    }),
  },
  {
    fault: 'started runs expire',
    rejectedBy: 'expiry/spares-what-has-started',
    override: (intact) =>
      afterFetches(
        intact,
        `UPDATE worker_queue SET expires_at = instances.expires_at FROM instances
         WHERE instances.instance_key = worker_queue.instance_key`,
      ),
  },
  {
    fault: 'expired runs beyond the first 500 are claimed',
    rejectedBy: 'expiry/none-of-many-is-claimed-too-late',
    override: (intact) => ({
      async createTasks(tasks) {
        const results = await intact.provider.createTasks(tasks);
        intact.db.exec('UPDATE worker_queue SET expires_at = NULL WHERE item_key > 500');
        return results;
      },
    }),
  },
];
