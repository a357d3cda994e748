import type { EnqueueResult, NewInstance } from '../../../src/providers/contract/instances.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';
import { brokenTurnStarts } from './turn-starts.ts';

/** Changes starts before the store gets them. */
export function editStarts(
  { provider }: Intact,
  edit: (instance: NewInstance) => NewInstance,
): Partial<Provider> {
  return { createInstances: (instances) => provider.createInstances(instances.map(edit)) };
}

/** Runs SQL right before timeouts are applied. */
export function beforeTimeouts({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    applyTimeouts(request) {
      db.exec(sql);
      return provider.applyTimeouts(request);
    },
  };
}

/** Runs SQL right before messages are enqueued. */
function beforeMessages({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    enqueueMessages(messages) {
      db.exec(sql);
      return provider.enqueueMessages(messages);
    },
  };
}

export const brokenStarting: readonly BrokenProvider[] = [
  {
    fault: 'a start loses its timeout',
    rejectedBy: 'timeout/cancels-when-it-has-passed',
    override: (intact) => editStarts(intact, ({ timeoutMs: _timeout, ...rest }) => rest),
  },
  {
    fault: 'a timeout passes too early',
    rejectedBy: 'timeout/cancels-when-it-has-passed',
    override: (intact) =>
      beforeTimeouts(intact, 'UPDATE instance_deadlines SET due_at = due_at - 1'),
  },
  {
    fault: 'a timeout cancels without its trigger',
    rejectedBy: 'timeout/ends-a-pending-instance',
    override: ({ provider, db }) => ({
      async applyTimeouts(request) {
        const applied = await provider.applyTimeouts(request);
        db.exec('UPDATE instances SET cancel_cause = NULL');
        return applied;
      },
    }),
  },
  {
    fault: 'a timeout is applied again',
    rejectedBy: 'timeout/leaves-what-has-ended',
    override: (intact) => ({
      async applyTimeouts(request) {
        const applied = await intact.provider.applyTimeouts(request);
        intact.db.exec('UPDATE instance_deadlines SET due_at = 1 WHERE due_at IS NULL');
        return { ...applied, nextAt: applied.nextAt ?? 1 };
      },
    }),
  },
  {
    fault: 'a timeout counts from the creation of a delayed start',
    rejectedBy: 'timeout/counts-from-the-earliest-start',
    override: (intact) =>
      beforeTimeouts(
        intact,
        `UPDATE instance_deadlines SET due_at = (SELECT created_at FROM instances
           WHERE instances.instance_key = instance_deadlines.instance_key) + timeout_ms
         WHERE due_at IS NOT NULL`,
      ),
  },
  {
    fault: 'a retry has no timeout',
    rejectedBy: 'timeout/starts-again-with-a-retry',
    override: ({ provider, db }) => ({
      async retryInstances(retries) {
        const results = await provider.retryInstances(retries);
        db.exec('UPDATE instance_deadlines SET due_at = NULL');
        return results;
      },
    }),
  },
  {
    fault: 'a start drops its event',
    rejectedBy: 'start-event/comes-with-the-start',
    override: (intact) => editStarts(intact, ({ event: _event, ...rest }) => rest),
  },
  {
    fault: 'the event of a start has no key',
    rejectedBy: 'start-event/its-key-counts',
    override: (intact) =>
      editStarts(intact, (instance) => {
        if (instance.event === undefined) return instance;
        const { key: _, ...event } = instance.event;
        return { ...instance, event };
      }),
  },
  {
    fault: '`useExisting` is ignored',
    rejectedBy: 'conflict/uses-the-existing',
    override: (intact) =>
      editStarts(intact, ({ onConflict, ...rest }) =>
        onConflict === 'terminateExisting' ? { ...rest, onConflict } : rest,
      ),
  },
  {
    fault: 'a repeat of a replacement replaces again',
    rejectedBy: 'conflict/a-repeat-replaces-nothing',
    override: (intact) =>
      editStarts(intact, (instance) => ({ ...instance, incarnation: crypto.randomUUID() })),
  },
  {
    fault: 'a replacement keeps the timeout of the replaced start',
    rejectedBy: 'conflict/replaces-a-live-instance',
    override: ({ provider, db }) => ({
      async createInstances(instances) {
        const before = db.prepare('SELECT * FROM instance_deadlines').all() as {
          instance_key: number;
          timeout_ms: number;
          due_at: number;
        }[];
        const results = await provider.createInstances(instances);
        const restore = db.prepare('INSERT OR IGNORE INTO instance_deadlines VALUES (?, ?, ?)');
        for (const row of before) restore.run(row.instance_key, row.timeout_ms, row.due_at);
        return results;
      },
    }),
  },
  ...brokenTurnStarts,
  {
    fault: 'a dedupe key is ignored',
    rejectedBy: 'dedupe/names-the-live-instance',
    override: (intact) => editStarts(intact, ({ dedupeKey: _key, ...rest }) => rest),
  },
  {
    fault: 'a start does not wait for its time',
    rejectedBy: 'start-delay/waits-for-its-time',
    override: (intact) => editStarts(intact, ({ delayMs: _delay, runAt: _at, ...rest }) => rest),
  },
  {
    fault: 'an event overtakes the start of its instance',
    rejectedBy: 'start-delay/holds-events-back',
    override: (intact) => beforeMessages(intact, 'UPDATE instances SET run_at = NULL'),
  },
  {
    fault: 'the key of an event is forgotten',
    rejectedBy: 'event-key/is-one-event',
    override: (intact) => beforeMessages(intact, 'DELETE FROM event_keys'),
  },
  {
    fault: 'a key belongs to all instances',
    rejectedBy: 'event-key/belongs-to-its-instance',
    override: ({ provider }) => ({
      async enqueueMessages(messages) {
        const results: EnqueueResult[] = [];
        const seen = new Set<string>();
        for (const message of messages) {
          const { key = '' } = message;
          if (key !== '' && seen.has(key)) results.push('repeated');
          else results.push(...(await provider.enqueueMessages([message])));
          seen.add(key);
        }
        return results;
      },
    }),
  },
];
