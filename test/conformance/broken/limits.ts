import type { Limits } from '../../../src/providers/contract/limits.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { withoutEffect, type BrokenProvider, type Intact } from './broken-provider.ts';

/** Runs SQL on the database once, when the provider is opened. */
function withSql({ provider, db }: Intact, sql: string): Partial<Provider> {
  db.exec(sql);
  return { name: provider.name };
}

/** Edits the limits of all declarations. */
function declaring({ provider }: Intact, edit: (limits: Limits) => Limits): Partial<Provider> {
  return {
    declareLimits: ({ buildId, definitions }) =>
      provider.declareLimits({
        buildId,
        definitions: definitions.map((one) => ({ ...one, limits: edit(one.limits) })),
      }),
  };
}

/** Runs SQL on the database before each fetch. */
function beforeFetches({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    fetchWorkItems(params) {
      db.exec(sql);
      return provider.fetchWorkItems(params);
    },
  };
}

/** Recomputes the places in use from the items. */
const recount = `
  UPDATE lanes SET running = (SELECT count(*) FROM worker_queue AS item
    WHERE abs(item.limit_key) = lanes.definition_key AND item.lane = lanes.lane AND place = 1);
  UPDATE limits SET running = (SELECT count(*) FROM worker_queue AS item
    WHERE abs(item.limit_key) = limits.definition_key AND place = 1);`;

export const brokenLimits: readonly BrokenProvider[] = [
  {
    fault: 'the global limit is ignored',
    rejectedBy: 'limit/global-is-never-exceeded',
    override: (intact) => declaring(intact, ({ global: _global, ...limits }) => limits),
  },
  {
    fault: 'the limit per key is ignored',
    rejectedBy: 'limit/per-key-is-never-exceeded',
    override: (intact) => declaring(intact, ({ perKey: _perKey, ...limits }) => limits),
  },
  {
    fault: 'a claim does not count its place',
    rejectedBy: 'limit/global-is-never-exceeded',
    override: (intact) =>
      beforeFetches(intact, 'UPDATE limits SET running = 0; UPDATE lanes SET running = 0'),
  },
  {
    fault: 'the call of a task takes no place of the task',
    rejectedBy: 'limit/calls-of-a-task-count-with-its-runs',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS uncounted_call AFTER UPDATE OF place ON worker_queue
         WHEN NEW.place = 1 AND NEW.limit_key <> NEW.definition_key
         BEGIN UPDATE limits SET running = running - 1 WHERE definition_key = NEW.limit_key; END`,
      ),
  },
  {
    fault: 'calls that were queued before their task was limited stay uncounted',
    rejectedBy: 'limit/counts-calls-that-were-queued-before',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS unconverted_call BEFORE UPDATE OF lane ON worker_queue
         WHEN OLD.lane IS NULL AND NEW.limit_key <> NEW.definition_key
         BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'a hand-back does not free its place',
    rejectedBy: 'limit/every-end-frees-its-place',
    override: (intact) =>
      withSql(intact, withoutEffect('worker_queue_handed_back', 'worker_queue')),
  },
  {
    fault: 'a deleted item does not free its place',
    rejectedBy: 'limit/every-end-frees-its-place',
    override: (intact) => withSql(intact, withoutEffect('worker_queue_deleted', 'worker_queue')),
  },
  {
    fault: 'a queued item frees a place when it is deleted',
    rejectedBy: 'limit/a-queued-item-has-no-place',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS frees AFTER DELETE ON worker_queue WHEN OLD.place = 0
         BEGIN UPDATE limits SET running = running - 1 WHERE definition_key = OLD.definition_key; END`,
      ),
  },
  {
    fault: 'an expired lease keeps its place',
    rejectedBy: 'limit/an-expired-lease-frees-its-place',
    override: (intact) =>
      beforeFetches(
        intact,
        `UPDATE worker_queue SET place = 0 WHERE place = 1 AND locked_until <= ${intact.clock.now()} + 10000`,
      ),
  },
  {
    fault: 'a lapsed token stays valid although its place was given away',
    rejectedBy: 'limit/an-expired-lease-frees-its-place',
    override: ({ provider, db, clock }) => ({
      ackWorkItems(acks) {
        db.exec(
          `UPDATE worker_queue SET locked_until = ${clock.now() + 1} WHERE lock_token IS NOT NULL`,
        );
        for (const { lockToken } of acks) {
          const [key, secret] = lockToken.split('.');
          db.prepare('UPDATE worker_queue SET lock_token = ? WHERE item_key = ?').run(secret, key);
        }
        return provider.ackWorkItems(acks);
      },
    }),
  },
  {
    fault: 'claimed items do not show that they are limited',
    rejectedBy: 'limit/a-claim-shows-that-it-is-limited',
    override: ({ provider }) => ({
      async fetchWorkItems(params) {
        const items = await provider.fetchWorkItems(params);
        return items.map(({ limited: _limited, ...item }) => item);
      },
    }),
  },
  {
    fault: 'a takeover leaves the places of the dead process in use',
    rejectedBy: 'takeover/frees-the-places-of-limits',
    override: ({ provider, db }) => ({
      async takeOverClaims(processIds) {
        const count = await provider.takeOverClaims(processIds);
        db.exec('UPDATE worker_queue SET place = 0 WHERE place = 1');
        return count;
      },
    }),
  },
  {
    fault: 'a renewal frees its place',
    rejectedBy: 'limit/a-renewal-keeps-the-place',
    override: ({ provider, db }) => ({
      async renewWorkItemLocks(renewals, extendMs) {
        const results = await provider.renewWorkItemLocks(renewals, extendMs);
        db.exec(`UPDATE worker_queue SET place = 0; ${recount}`);
        return results;
      },
    }),
  },
  {
    fault: 'running items are not counted at the first limit',
    rejectedBy: 'limit/counts-what-runs-already',
    override: ({ provider, db }) => ({
      async declareLimits(request) {
        const results = await provider.declareLimits(request);
        db.exec('UPDATE limits SET convert_from = NULL');
        return results;
      },
    }),
  },
  {
    fault: 'an activity is not limited',
    rejectedBy: 'limit/an-activity-is-limited',
    override: ({ provider }) => ({
      declareLimits: ({ buildId, definitions }) =>
        provider.declareLimits({
          buildId,
          definitions: definitions.map((one) =>
            one.kind === 'activity' ? { ...one, limits: {} } : one,
          ),
        }),
    }),
  },
  {
    fault: 'a resumed item does not make its lane ready',
    rejectedBy: 'limit/a-paused-item-is-not-claimed',
    override: (intact) => withSql(intact, 'DROP TRIGGER IF EXISTS worker_queue_resumed'),
  },
  {
    fault: 'a raised limit leaves lanes waiting',
    rejectedBy: 'limit/raising-ends-a-wait',
    override: ({ provider, db }) => ({
      async setLimits(request) {
        const record = await provider.setLimits(request);
        db.exec('UPDATE lanes SET ready = 0');
        return record;
      },
    }),
  },
  {
    fault: 'a freed place is not signaled',
    rejectedBy: 'limit/a-freed-place-ends-a-wait',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS silent AFTER UPDATE OF freed ON limits WHEN NEW.freed > 0
         BEGIN UPDATE limits SET freed = 0 WHERE definition_key = NEW.definition_key;
               UPDATE lanes SET ready = 0; END`,
      ),
  },
  {
    fault: 'keys are served in the order of their runs',
    rejectedBy: 'lane/a-new-key-comes-next',
    override: ({ provider }) => ({
      createTasks: (tasks) =>
        provider.createTasks(
          tasks.map(({ lane, ...task }) =>
            lane === undefined ? task : { ...task, lane: { ...lane, key: 'all' } },
          ),
        ),
    }),
  },
  {
    fault: 'weights are ignored',
    rejectedBy: 'lane/keys-share-by-weight',
    override: (intact) => beforeFetches(intact, 'UPDATE lanes SET weight = 1'),
  },
  {
    fault: 'the first weight of a key counts',
    rejectedBy: 'lane/the-newest-weight-counts',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS keeps AFTER UPDATE OF weight ON lanes WHEN NEW.weight <> OLD.weight
         BEGIN UPDATE lanes SET weight = OLD.weight
               WHERE definition_key = NEW.definition_key AND lane = NEW.lane; END`,
      ),
  },
  {
    fault: 'delayed items do not wake their lane',
    rejectedBy: 'lane/a-delayed-run-comes-in-time',
    override: (intact) => beforeFetches(intact, 'UPDATE lanes SET wake_at = NULL'),
  },
  {
    fault: 'a rate admits everything',
    rejectedBy: 'rate/admits-a-burst-then-one-per-interval',
    override: (intact) => declaring(intact, ({ rate: _rate, ...limits }) => limits),
  },
  {
    fault: 'the interval of a rate is rounded down to milliseconds',
    rejectedBy: 'rate/odd-periods-are-never-exceeded',
    override: ({ provider }) => ({
      setLimits(request) {
        const { rate, ...others } = request.override ?? {};
        const rounded = rate && {
          ...rate,
          perMs: Math.floor(rate.perMs / rate.limit) * rate.limit,
        };
        const override = { ...others, ...(rounded && { rate: rounded }) };
        return provider.setLimits({ ...request, override });
      },
    }),
  },
  {
    fault: 'a lowered rate stops runs for as long as the tokens of the former one',
    rejectedBy: 'rate/a-lowered-rate-counts-from-its-change',
    override: ({ provider, db }) => ({
      async setLimits(request) {
        const record = await provider.setLimits(request);
        db.exec('UPDATE limits SET tat = tat + 1000000; UPDATE lanes SET tat = tat + 1000000');
        return record;
      },
    }),
  },
  {
    fault: 'a limit per key of a newer build holds for new keys only',
    rejectedBy: 'limit/lowering-a-key-stops-nothing',
    override: ({ provider, db }) => ({
      async declareLimits(request) {
        const results = await provider.declareLimits(request);
        db.exec('UPDATE lanes SET running = 0');
        return results;
      },
    }),
  },
  {
    fault: 'limits above 65,535 are cut',
    rejectedBy: 'limit/the-largest-figures-hold',
    override: ({ provider }) => ({
      setLimits(request) {
        const { global } = request.override ?? {};
        const override = request.override && {
          ...request.override,
          ...(global != null && { global: Math.min(global, 65_535) }),
        };
        return provider.setLimits({ ...request, override });
      },
    }),
  },
  {
    fault: 'a rate per key counts for the whole definition',
    rejectedBy: 'rate/counts-per-key',
    override: (intact) =>
      declaring(intact, (limits) =>
        limits.rate === undefined ? limits : { ...limits, rate: { ...limits.rate, perKey: false } },
      ),
  },
  {
    fault: 'a key without items gets its tokens back',
    rejectedBy: 'rate/a-key-keeps-its-rate-when-it-is-idle',
    override: ({ provider, db }) => ({
      async ackWorkItems(acks) {
        const results = await provider.ackWorkItems(acks);
        db.exec('DELETE FROM lanes WHERE running = 0 AND more = 0');
        return results;
      },
    }),
  },
  {
    fault: 'a hand-back gives its token back',
    rejectedBy: 'rate/a-retry-takes-a-token',
    override: ({ provider, db }) => ({
      async retryWorkItems(retries) {
        const results = await provider.retryWorkItems(retries);
        db.exec('UPDATE limits SET tat = 0');
        return results;
      },
    }),
  },
  {
    fault: 'a declaration bounds the rate by a time from before its lock',
    rejectedBy: 'rate/declarations-give-no-tokens-back',
    override: ({ provider, db, clock }) => ({
      async declareLimits(request) {
        const sentAt = clock.now();
        await new Promise((resolve) => setTimeout(resolve, 1));
        const results = await provider.declareLimits(request);
        db.prepare('UPDATE limits SET tat = min(tat, ?)').run((sentAt + 100) * 1_000);
        return results;
      },
    }),
  },
  {
    fault: 'a newer declaration of an older build wins back',
    rejectedBy: 'limit/the-newest-build-wins',
    override: ({ provider, db }) => ({
      declareLimits(request) {
        db.prepare('DELETE FROM declared_limits WHERE build_id = ?').run(request.buildId);
        return provider.declareLimits(request);
      },
    }),
  },
  {
    fault: 'the rank of a build is lost after ten newer ones',
    rejectedBy: 'limit/a-much-older-build-does-not-win-back',
    override: ({ provider, db }) => ({
      declareLimits(request) {
        db.exec(`DELETE FROM declared_limits WHERE declaration_key NOT IN (
          SELECT declaration_key FROM declared_limits ORDER BY declaration_key DESC LIMIT 10)`);
        return provider.declareLimits(request);
      },
    }),
  },
  {
    fault: 'a declaration replaces the figures of an operator',
    rejectedBy: 'limit/an-operator-sets-single-figures',
    override: ({ provider, db }) => ({
      declareLimits(request) {
        db.exec('UPDATE limits SET override = NULL');
        return provider.declareLimits(request);
      },
    }),
  },
  {
    fault: 'idle lanes stay',
    rejectedBy: 'lane/an-idle-one-is-deleted',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS stays BEFORE DELETE ON lanes BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'a key keeps the place of a run that was deleted while it was held',
    rejectedBy: 'lane/a-removed-one-is-free',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS keeps AFTER DELETE ON worker_queue WHEN OLD.place = 1
         BEGIN UPDATE lanes SET running = running + 1 WHERE definition_key = OLD.limit_key AND lane = OLD.lane; END`,
      ),
  },
  {
    fault: 'an inspection shows no limit',
    rejectedBy: 'limit/inspection-shows-what-holds-an-item',
    override: ({ provider }) => ({
      async inspectInstance(params) {
        const details = await provider.inspectInstance(params);
        return (
          details && {
            ...details,
            pending: details.pending.map((item) => ({ ...item, limitHold: null })),
          }
        );
      },
    }),
  },
];
