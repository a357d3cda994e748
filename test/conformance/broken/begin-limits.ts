import type { OrchestrationItem } from '../../../src/providers/contract/orchestration-queue.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { withoutEffect, type BrokenProvider, type Intact } from './broken-provider.ts';

/** Runs SQL on the database. A second connection runs it again. */
function withSql({ provider, db }: Intact, sql: string): Partial<Provider> {
  db.exec(sql);
  return { name: provider.name };
}

const endKeepsPlace = withoutEffect('instances_ended_places', 'instances');

/** Instances without a place seem to be in another status while a worker claims. */
function claimsAs({ provider, db }: Intact, from: string, to: string): Partial<Provider> {
  const change = (status: string, other: string) =>
    db.exec(`UPDATE instances SET status = '${other}' WHERE status = '${status}'
      AND instance_key NOT IN (SELECT instance_key FROM instance_places WHERE has_begun = 1)`);
  return {
    async fetchOrchestrationItems(params) {
      change(from, to);
      const items = await provider.fetchOrchestrationItems(params);
      db.exec(`UPDATE instances SET status = '${from}' WHERE status = '${to}'`);
      return items;
    },
  };
}

const keepsPendingPlaces = `CREATE TRIGGER IF NOT EXISTS keeps BEFORE DELETE ON instance_places
  WHEN EXISTS (SELECT 1 FROM instances WHERE instance_key = OLD.instance_key AND status = 'pending')
  BEGIN SELECT RAISE(IGNORE); END`;

export const brokenBeginLimits: readonly BrokenProvider[] = [
  {
    fault: 'limits of orchestrations are not stored',
    rejectedBy: 'begin/never-more-than-the-limit',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS unlimited AFTER UPDATE OF effective ON limits WHEN NEW.effective <> '{}'
         BEGIN UPDATE limits SET effective = '{}' WHERE definition_key = NEW.definition_key; END`,
      ),
  },
  {
    fault: 'the end of an instance keeps its place',
    rejectedBy: 'begin/every-end-frees-the-place',
    override: (intact) => withSql(intact, endKeepsPlace),
  },
  {
    fault: 'the end of an instance wakes no worker for the next one',
    rejectedBy: 'begin/an-end-wakes-who-waits',
    override: (intact) => withSql(intact, endKeepsPlace),
  },
  {
    fault: 'a waiting instance that is stopped takes a place later',
    rejectedBy: 'begin/what-waits-can-be-stopped',
    override: (intact) => withSql(intact, endKeepsPlace),
  },
  {
    fault: 'the deletion of an instance keeps its place',
    rejectedBy: 'begin/every-end-frees-the-place',
    override: (intact) => withSql(intact, 'DROP TRIGGER IF EXISTS instances_deleted_places'),
  },
  {
    fault: 'a paused instance takes a place before it is resumed',
    rejectedBy: 'begin/a-paused-instance-does-not-take-the-place',
    override: (intact) => withSql(intact, 'DROP TRIGGER IF EXISTS instances_paused_places'),
  },
  {
    fault: 'a moved start keeps its turn',
    rejectedBy: 'begin/a-moved-start-gives-up-its-turn',
    override: (intact) => withSql(intact, keepsPendingPlaces),
  },
  {
    fault: 'a moved start keeps its place',
    rejectedBy: 'begin/a-moved-start-frees-its-place',
    override: (intact) => withSql(intact, keepsPendingPlaces),
  },
  {
    fault: 'a moved start can be claimed although it is paused',
    rejectedBy: 'begin/a-moved-start-stays-paused',
    override: ({ provider, db }) => ({
      async createInstances(instances) {
        const results = await provider.createInstances(instances);
        db.exec('UPDATE instance_locks SET definition_key = abs(definition_key)');
        return results;
      },
    }),
  },
  {
    fault: 'the next execution of an instance gives up the place',
    rejectedBy: 'begin/keeps-its-place',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS gives_up AFTER UPDATE OF execution_id ON instances
         BEGIN DELETE FROM instance_places WHERE instance_key = NEW.instance_key; END`,
      ),
  },
  {
    fault: 'one key can take all places before the others',
    rejectedBy: 'begin/keys-take-turns',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS no_time AFTER UPDATE OF vtime ON lanes WHEN NEW.vtime <> 0
         BEGIN UPDATE lanes SET vtime = 0 WHERE definition_key = NEW.definition_key AND lane = NEW.lane; END`,
      ),
  },
  {
    fault: 'a key that was idle catches up on the past',
    rejectedBy: 'begin/an-idle-key-does-not-catch-up',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS begins_in_the_past AFTER INSERT ON lanes
         BEGIN UPDATE lanes SET vtime = 0 WHERE definition_key = NEW.definition_key AND lane = NEW.lane; END;
         CREATE TRIGGER IF NOT EXISTS catches_up AFTER UPDATE OF vtime ON lanes WHEN NEW.vtime > OLD.vtime + 720720
         BEGIN UPDATE lanes SET vtime = OLD.vtime + 720720 WHERE definition_key = NEW.definition_key AND lane = NEW.lane; END`,
      ),
  },
  {
    fault: 'idle keys of orchestrations stay',
    rejectedBy: 'begin/an-idle-key-is-deleted',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS stays BEFORE DELETE ON lanes BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'instances of one call wait in the reverse order',
    rejectedBy: 'begin/waits-in-order',
    override: ({ provider }) => ({
      createInstances: async (instances) =>
        (await provider.createInstances(instances.toReversed())).toReversed(),
    }),
  },
  {
    fault: 'a worker gives a place to an instance that it cannot run',
    rejectedBy: 'begin/a-version-that-is-not-runnable-takes-no-place',
    override: ({ provider }) => ({
      async fetchOrchestrationItems({ runnable, ...params }) {
        const items = await provider.fetchOrchestrationItems(params);
        const isRunnable = ({ version }: OrchestrationItem) =>
          runnable?.some((one) => one.version === version) !== false;
        const others = items.filter((item) => !isRunnable(item));
        await provider.abandonOrchestrationItems(
          others.map(({ lockToken }) => ({ lockToken, delayMs: 0, giveBackClaim: true })),
        );
        return items.filter(isRunnable);
      },
    }),
  },
  {
    fault: 'instances lose their keys',
    rejectedBy: 'begin/per-key',
    override: ({ provider }) => ({
      createInstances: (instances) =>
        provider.createInstances(instances.map(({ lane: _lane, ...instance }) => instance)),
    }),
  },
  {
    fault: 'a replacement without a key keeps that of the replaced instance',
    rejectedBy: 'begin/a-replacement-has-its-own-key',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS keeps BEFORE DELETE ON run_lanes BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'a replacement begins although no place is free',
    rejectedBy: 'begin/a-replacement-waits',
    override: (intact) => claimsAs(intact, 'running', 'canceling'),
  },
  {
    fault: 'a retried instance begins although no place is free',
    rejectedBy: 'begin/a-retry-waits',
    override: (intact) => claimsAs(intact, 'running', 'canceling'),
  },
  {
    fault: 'a fork loses the key of its source',
    rejectedBy: 'begin/a-fork-has-the-key-of-its-source',
    override: ({ provider, db }) => ({
      async forkInstances(forks) {
        const results = await provider.forkInstances(forks);
        db.exec(`DELETE FROM run_lanes WHERE instance_key IN (
          SELECT instance_key FROM instances WHERE forked_from IS NOT NULL)`);
        return results;
      },
    }),
  },
  {
    fault: 'a canceled instance waits for a place',
    rejectedBy: 'begin/a-canceled-retry-cleans-up',
    override: (intact) => claimsAs(intact, 'canceling', 'running'),
  },
  {
    fault: 'a start of a limited orchestration seems to have run its first turn',
    rejectedBy: 'begin/a-first-turn-is-not-run',
    override: ({ provider }) => ({
      createInstances: async (instances) =>
        (await provider.createInstances(instances)).map((result) => {
          if (result.kind !== 'created') return result;
          const { withoutTurn: _withoutTurn, ...created } = result;
          return created;
        }),
    }),
  },
  {
    fault: 'an inspection does not show that an instance waits for a place',
    rejectedBy: 'begin/what-waits-is-shown',
    override: ({ provider }) => ({
      inspectTurn: async (instanceId) => {
        const turn = await provider.inspectTurn(instanceId);
        return turn && { ...turn, waitingKey: null };
      },
    }),
  },
  {
    fault: 'a raised limit of an orchestration has no effect',
    rejectedBy: 'begin/a-change-holds-at-once',
    override: ({ provider }) => ({
      setLimits: ({ kind, name }) => provider.setLimits({ kind, name, override: {} }),
    }),
  },
  {
    fault: 'instances that began before the limit do not count',
    rejectedBy: 'begin/what-has-begun-counts',
    override: ({ provider, db }) => ({
      async declareLimits(request) {
        const declared = await provider.declareLimits(request);
        db.exec('DELETE FROM instance_places; UPDATE limits SET running = 0; DELETE FROM lanes');
        return declared;
      },
    }),
  },
  {
    fault: 'instances whose first turn is under way do not count at the first limit',
    rejectedBy: 'begin/a-claim-under-way-counts',
    override: ({ provider, db }) => ({
      async declareLimits(request) {
        const declared = await provider.declareLimits(request);
        db.exec(`DELETE FROM instance_places WHERE instance_key IN (
          SELECT instance_key FROM instances WHERE status = 'pending')`);
        return declared;
      },
    }),
  },
  {
    fault: 'instances whose first claim has expired count at the first limit',
    rejectedBy: 'begin/a-claim-that-expired-before-has-no-place',
    override: ({ provider, db, clock }) => ({
      declareLimits(request) {
        const until = clock.now() + 10_000;
        db.exec(`UPDATE instance_locks SET locked_until = ${until}, next_at = ${until}
          WHERE lock_token IS NOT NULL`);
        return provider.declareLimits(request);
      },
    }),
  },
];
