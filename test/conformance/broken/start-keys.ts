import { setImmediate } from 'node:timers/promises';
import type { NewInstance } from '../../../src/providers/contract/instances.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { NewTask } from '../../../src/providers/contract/tasks.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

type Keyed = Pick<NewTask & NewInstance, 'dedupeMs' | 'debounce' | 'delayMs' | 'instanceId'>;

/** Changes starts of both kinds before the store gets them. */
function editStarts(
  { provider }: Intact,
  edit: <Start extends Keyed>(start: Start) => Start,
): Partial<Provider> {
  return {
    createTasks: (tasks) => provider.createTasks(tasks.map((task) => edit(task))),
    createInstances: (instances) => provider.createInstances(instances.map((one) => edit(one))),
  };
}

function without<Start extends Keyed>(start: Start, option: 'dedupeMs' | 'debounce'): Start {
  const { [option]: _, ...rest } = start;
  return rest as Start;
}

/** Runs SQL right before starts of both kinds. */
function beforeStarts({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    createTasks(tasks) {
      db.exec(sql);
      return provider.createTasks(tasks);
    },
    createInstances(instances) {
      db.exec(sql);
      return provider.createInstances(instances);
    },
  };
}

/** Runs SQL right after starts of both kinds. */
function afterStarts({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    async createTasks(tasks) {
      const results = await provider.createTasks(tasks);
      db.exec(sql);
      return results;
    },
    async createInstances(instances) {
      const results = await provider.createInstances(instances);
      db.exec(sql);
      return results;
    },
  };
}

/** Adds a trigger to the database. */
function withTrigger({ db }: Intact, trigger: string): Partial<Provider> {
  db.exec(`CREATE TRIGGER broken ${trigger}`);
  return {};
}

export const brokenStartKeys: readonly BrokenProvider[] = [
  {
    fault: 'a dedupe window is ignored',
    rejectedBy: 'window/names-the-ended-run',
    override: (intact) => editStarts(intact, (start) => without(start, 'dedupeMs')),
  },
  {
    fault: 'a dedupe window ends late',
    rejectedBy: 'window/names-the-ended-run',
    override: (intact) => afterStarts(intact, 'UPDATE start_keys SET expires_at = 9e15'),
  },
  {
    fault: 'a dedupe window counts from the last start with its key',
    rejectedBy: 'window/names-the-ended-run',
    override: (intact) => ({
      async createTasks(tasks) {
        const results = await intact.provider.createTasks(tasks);
        const renew = intact.db.prepare('UPDATE start_keys SET expires_at = expires_at + 1');
        if (results.some(({ kind }) => kind === 'active')) renew.run();
        return results;
      },
    }),
  },
  {
    fault: 'the window of a dedupe key hides an active run',
    rejectedBy: 'window/an-active-run-comes-first',
    override: (intact) => beforeStarts(intact, 'DELETE FROM dedupe_keys'),
  },
  {
    fault: 'a start without a window returns the run of a window',
    rejectedBy: 'window/belongs-to-starts-with-one',
    override: (intact) => editStarts(intact, (start) => ({ ...start, dedupeMs: 60_000 })),
  },
  {
    fault: 'a known id is not found within a window',
    rejectedBy: 'window/a-known-id-comes-first',
    override: (intact) => ({
      async createTasks(tasks) {
        const results = await intact.provider.createTasks(tasks);
        return results.map((result, index) =>
          result.kind === 'exists'
            ? { kind: 'active', instanceId: tasks[index]?.instanceId ?? '' }
            : result,
        );
      },
    }),
  },
  {
    fault: 'the window of a deleted run stays',
    rejectedBy: 'window/is-deleted-with-its-run',
    override: ({ provider }) => {
      let first: string | undefined;
      return {
        async createTasks(tasks) {
          if (first !== undefined) return [{ kind: 'active', instanceId: first }];
          first = tasks[0]?.instanceId;
          return provider.createTasks(tasks);
        },
      };
    },
  },
  {
    fault: 'concurrent starts with one window all create runs',
    rejectedBy: 'shared/one-window-has-one-run',
    override: ({ db }) => {
      for (const table of ['start_keys', 'dedupe_keys']) {
        db.exec(
          `CREATE TRIGGER IF NOT EXISTS drop_${table} BEFORE INSERT ON ${table} BEGIN SELECT RAISE(IGNORE); END`,
        );
      }
      return {};
    },
  },
  {
    fault: 'a debounce key is ignored',
    rejectedBy: 'debounce/moves-a-run-that-has-not-started',
    override: (intact) => editStarts(intact, (start) => without(start, 'debounce')),
  },
  {
    fault: 'a moved run keeps its first input',
    rejectedBy: 'debounce/moves-a-run-that-has-not-started',
    override: (intact) =>
      withTrigger(
        intact,
        `AFTER UPDATE OF input ON instances WHEN NEW.input IS NOT OLD.input
         BEGIN UPDATE instances SET input = OLD.input WHERE instance_key = NEW.instance_key; END`,
      ),
  },
  {
    fault: 'a moved instance keeps its first input',
    rejectedBy: 'debounce/moves-a-run-that-has-not-started',
    override: (intact) =>
      withTrigger(
        intact,
        `AFTER UPDATE OF payload ON orchestrator_queue WHEN NEW.payload IS NOT OLD.payload
         BEGIN UPDATE orchestrator_queue SET payload = OLD.payload WHERE message_key = NEW.message_key; END`,
      ),
  },
  {
    fault: 'a moved run keeps the tags of its first start',
    rejectedBy: 'debounce/moves-a-run-that-has-not-started',
    override: (intact) =>
      withTrigger(
        intact,
        `BEFORE DELETE ON instance_tags WHEN EXISTS (SELECT 1 FROM instances
           WHERE instance_key = OLD.instance_key AND status = 'pending')
         BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'a moved run keeps its time',
    rejectedBy: 'debounce/moves-a-run-that-has-not-started',
    override: (intact) =>
      withTrigger(
        intact,
        `AFTER UPDATE OF next_at ON worker_queue WHEN NEW.lock_token IS NULL AND NEW.next_at > OLD.next_at
         BEGIN UPDATE worker_queue SET next_at = OLD.next_at WHERE item_key = NEW.item_key; END`,
      ),
  },
  {
    fault: 'a moved task run keeps its priority',
    rejectedBy: 'debounce/replaces-the-options-of-a-task',
    override: (intact) =>
      withTrigger(
        intact,
        `AFTER UPDATE OF priority ON instances WHEN NEW.priority IS NOT OLD.priority
         BEGIN UPDATE instances SET priority = OLD.priority WHERE instance_key = NEW.instance_key; END`,
      ),
  },
  {
    fault: 'a moved task run keeps its expiry',
    rejectedBy: 'debounce/replaces-the-options-of-a-task',
    override: (intact) =>
      withTrigger(
        intact,
        `AFTER UPDATE OF expires_at ON worker_queue WHEN NEW.expires_at IS NOT OLD.expires_at AND NEW.lock_token IS NULL
         BEGIN UPDATE worker_queue SET expires_at = OLD.expires_at WHERE item_key = NEW.item_key; END`,
      ),
  },
  {
    fault: '`maxWaitMs` is ignored',
    rejectedBy: 'debounce/stops-at-its-max-wait',
    override: (intact) =>
      editStarts(intact, (start) => {
        if (start.debounce === undefined) return start;
        const { maxWaitMs: _, ...debounce } = start.debounce;
        return { ...start, debounce };
      }),
  },
  {
    fault: 'a start moves a run that a worker has claimed',
    rejectedBy: 'debounce/a-started-run-stays',
    override: (intact) =>
      beforeStarts(
        intact,
        `UPDATE worker_queue SET lock_token = NULL, locked_until = NULL;
         UPDATE instances SET status = 'pending' WHERE status = 'running'`,
      ),
  },
  {
    fault: 'a start moves an instance that a worker has claimed',
    rejectedBy: 'debounce/a-started-run-stays',
    override: (intact) =>
      beforeStarts(intact, 'UPDATE instance_locks SET lock_token = NULL, locked_until = NULL'),
  },
  {
    fault: 'a start moves a run that was retried',
    rejectedBy: 'debounce/a-retried-run-stays',
    override: (intact) =>
      beforeStarts(intact, `UPDATE instances SET execution_id = 1 WHERE execution_id = 2`),
  },
  {
    fault: 'a repeated request moves its run again',
    rejectedBy: 'debounce/a-repeated-request-changes-nothing',
    override: (intact) => beforeStarts(intact, `UPDATE start_keys SET request_key = 'other'`),
  },
  {
    fault: 'a debounce key is shared by all names',
    rejectedBy: 'debounce/belongs-to-its-name',
    override: (intact) => ({
      async createTasks(tasks) {
        const [task] = tasks;
        const held = intact.db
          .prepare<[string], string>(
            `SELECT instance_id FROM start_keys JOIN instances USING (instance_key) WHERE start_key = ?`,
          )
          .pluck()
          .get(task?.debounce?.key ?? '');
        return held === undefined
          ? intact.provider.createTasks(tasks)
          : [{ kind: 'active', instanceId: held }];
      },
    }),
  },
  {
    fault: 'an event overtakes the start of a moved instance',
    rejectedBy: 'debounce/holds-events-back',
    override: (intact) =>
      withTrigger(
        intact,
        `AFTER UPDATE OF visible_at ON orchestrator_queue WHEN NEW.kind = 'eventRaised'
         BEGIN UPDATE orchestrator_queue SET visible_at = OLD.visible_at WHERE message_key = NEW.message_key; END`,
      ),
  },
  {
    fault: 'a moved run keeps the timeout of its first start',
    rejectedBy: 'debounce/replaces-the-timeout',
    override: (intact) =>
      withTrigger(
        intact,
        `BEFORE DELETE ON instance_deadlines WHEN EXISTS (SELECT 1 FROM instances
           WHERE instance_key = OLD.instance_key AND status = 'pending')
         BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'a move lifts the pause of its run',
    rejectedBy: 'debounce/keeps-a-pause',
    override: (intact) =>
      afterStarts(intact, 'UPDATE worker_queue SET definition_key = abs(definition_key)'),
  },
  {
    fault: 'the moves of a debounced run are not counted',
    rejectedBy: 'inspect/shows-a-debounced-run',
    override: (intact) => afterStarts(intact, 'UPDATE start_keys SET moves = 0'),
  },
  {
    fault: 'concurrent starts with one debounce key have several runs',
    rejectedBy: 'shared/one-debounce-key-has-one-run',
    override: (intact) => beforeStarts(intact, 'DELETE FROM start_keys'),
  },
  {
    fault: 'the first of several debounced starts of one call wins',
    rejectedBy: 'debounce/a-batch-is-in-order',
    override: ({ provider }) => {
      let first: string | undefined;
      return {
        async createTasks(tasks) {
          if (first !== undefined) return [{ kind: 'active', instanceId: first }];
          first = tasks[0]?.instanceId;
          return provider.createTasks(tasks);
        },
      };
    },
  },
  {
    fault: 'a start that races with a claim loses its input',
    rejectedBy: 'shared/a-claim-and-a-move-exclude-each-other',
    override: ({ provider, db }) => ({
      async createTasks(tasks) {
        const key = tasks[0]?.debounce?.key ?? '';
        const held = db
          .prepare<[string], { id: string; status: string }>(
            `SELECT instance_id AS id, status FROM start_keys JOIN instances USING (instance_key)
             WHERE start_key = ?`,
          )
          .get(key);
        if (held === undefined) return provider.createTasks(tasks);
        // As if the run had been read before the claim, and changed after it.
        const status = db.prepare<[string], string>(
          'SELECT status FROM instances WHERE instance_id = ?',
        );
        while (status.pluck().get(held.id) === 'pending') await setImmediate();
        return [{ kind: 'active', instanceId: held.id }];
      },
    }),
  },
];
