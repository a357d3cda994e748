import type { StateView } from '../../../src/providers/contract/state.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

function editViews({ provider }: Intact, edit: (view: StateView) => StateView): Partial<Provider> {
  return {
    readStates: async (requests) =>
      (await provider.readStates(requests)).map((view) => view && edit(view)),
  };
}

/** Runs SQL on the database of every connection, once. */
function withSql({ provider, db }: Intact, sql: string): Partial<Provider> {
  db.exec(sql);
  return { name: provider.name };
}

export const brokenState: readonly BrokenProvider[] = [
  {
    fault: 'a turn of the fast path loses its state',
    rejectedBy: 'state/is-written-by-the-ack',
    override: ({ provider }) => ({
      ackTurns: (acks) =>
        provider.ackTurns(
          acks.map(({ turn: { state: _state, ...turn }, ...ack }) => ({ ...ack, turn })),
        ),
    }),
  },
  {
    fault: 'a first turn loses its state',
    rejectedBy: 'state/is-written-by-the-ack',
    override: ({ provider }) => ({
      createInstances: (instances) =>
        provider.createInstances(
          instances.map(({ firstTurn, ...instance }) => {
            if (firstTurn === undefined) return instance;
            const { state: _, ...turn } = firstTurn;
            return { ...instance, firstTurn: turn };
          }),
        ),
    }),
  },
  {
    fault: 'a rejected ack changes the state',
    rejectedBy: 'state/is-written-by-the-ack',
    override: ({ provider, db }) => ({
      async ackOrchestrationItems(acks) {
        const results = await provider.ackOrchestrationItems(acks);
        if (results.some(({ ok }) => !ok)) db.exec(`UPDATE instance_state SET value = '9'`);
        return results;
      },
    }),
  },
  {
    fault: 'a deleted key stays',
    rejectedBy: 'state/is-written-by-the-ack',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS stays BEFORE DELETE ON instance_state BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'the state is gone once its instance has ended',
    rejectedBy: 'state/is-written-by-the-ack',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS ends AFTER UPDATE OF ended_at ON instances
         BEGIN DELETE FROM instance_state WHERE instance_key = new.instance_key; END`,
      ),
  },
  {
    fault: 'a key begins with its first version again after its deletion',
    rejectedBy: 'state/versions-never-repeat',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS forgets AFTER DELETE ON instance_state
         BEGIN DELETE FROM instance_state WHERE instance_key = old.instance_key AND key = ''; END`,
      ),
  },
  {
    fault: 'a set to the same value has no new version',
    rejectedBy: 'state/versions-never-repeat',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS same BEFORE UPDATE ON instance_state
         WHEN new.key <> '' AND new.value = old.value BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'readStates() drops missing instances',
    rejectedBy: 'state/reads-come-in-the-order-asked',
    override: ({ provider }) => ({
      readStates: async (requests) =>
        (await provider.readStates(requests)).filter((view) => view !== undefined),
    }),
  },
  {
    fault: 'entries are in the order of UTF-16 units',
    rejectedBy: 'state/reads-come-in-the-order-asked',
    override: (intact) =>
      editViews(intact, (view) => ({
        ...view,
        entries: view.entries.toSorted((a, b) => (a.key < b.key ? -1 : 1)),
      })),
  },
  {
    fault: 'readStates() ignores the version',
    rejectedBy: 'state/reads-one-key-after-a-version',
    override: ({ provider }) => ({
      readStates: (requests) =>
        provider.readStates(requests.map((request) => ({ ...request, after: 0 }))),
    }),
  },
  {
    fault: 'readStates() ignores the key',
    rejectedBy: 'state/reads-one-key-after-a-version',
    override: ({ provider }) => ({
      readStates: (requests) =>
        provider.readStates(requests.map(({ key: _key, ...request }) => request)),
    }),
  },
  {
    fault: 'a custom status is returned again with the same version',
    rejectedBy: 'state/custom-status-has-a-version',
    override: ({ provider }) => ({
      readStates: (requests) =>
        provider.readStates(
          requests.map((request) =>
            request.what === 'status' ? { ...request, after: request.after - 1 } : request,
          ),
        ),
    }),
  },
  {
    fault: 'a change of the state emits no hint',
    rejectedBy: 'state/emits-a-hint',
    override: ({ provider }) => ({
      hints: (listener) =>
        provider.hints((hint) => {
          if (hint.kind !== 'statusSet') listener(hint);
        }),
    }),
  },
  {
    fault: 'a change of the state in another process emits no hint',
    rejectedBy: 'shared/state-elsewhere-is-told',
    override: (intact) =>
      withSql(
        intact,
        'CREATE TRIGGER IF NOT EXISTS lost AFTER INSERT ON changes BEGIN UPDATE changes SET status_set = NULL; END',
      ),
  },
  {
    fault: 'continue-as-new loses the state',
    rejectedBy: 'state/survives-continue-as-new',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS anew AFTER UPDATE OF execution_id ON instances
         BEGIN DELETE FROM instance_state WHERE instance_key = new.instance_key; END`,
      ),
  },
  {
    fault: 'a prune deletes the state',
    rejectedBy: 'state/survives-continue-as-new',
    override: ({ provider, db }) => ({
      async pruneExecutionsAtomic(prunes) {
        db.exec('DELETE FROM instance_state');
        return provider.pruneExecutionsAtomic(prunes);
      },
    }),
  },
  {
    fault: 'a later instance has the state of a deleted one',
    rejectedBy: 'state/is-deleted-with-its-instance',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TABLE IF NOT EXISTS left_over AS SELECT key, version, value FROM instance_state WHERE FALSE;
         CREATE TRIGGER IF NOT EXISTS leaves AFTER DELETE ON instance_state WHEN old.key <> ''
         BEGIN INSERT INTO left_over VALUES (old.key, old.version, old.value); END;
         CREATE TRIGGER IF NOT EXISTS finds AFTER INSERT ON instances
         BEGIN INSERT INTO instance_state SELECT new.instance_key, key, version, value FROM left_over; END`,
      ),
  },
  {
    fault: 'a retry keeps keys that its start does not have',
    rejectedBy: 'retry-run/replaces-the-state',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS stays BEFORE DELETE ON instance_state BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'a retry ignores the state of its start',
    rejectedBy: 'retry-run/replaces-the-state',
    override: ({ provider }) => ({
      retryInstances: (retries) =>
        provider.retryInstances(
          retries.map(({ start, ...retry }) => {
            if (start === undefined) return retry;
            const { state: _, ...others } = start;
            return { ...retry, start: others };
          }),
        ),
    }),
  },
  {
    fault: 'a replaced instance keeps its state',
    rejectedBy: 'conflict/clears-the-state',
    override: (intact) =>
      withSql(
        intact,
        `CREATE TRIGGER IF NOT EXISTS stays BEFORE DELETE ON instance_state BEGIN SELECT RAISE(IGNORE); END`,
      ),
  },
  {
    fault: 'a fork has no state',
    rejectedBy: 'fork/stores-its-state',
    override: ({ provider }) => ({
      forkInstances: (forks) =>
        provider.forkInstances(
          forks.map(({ start: { state: _state, ...start }, ...fork }) => ({ ...fork, start })),
        ),
    }),
  },
  {
    fault: 'a fork changes the state of its original',
    rejectedBy: 'fork/stores-its-state',
    override: ({ provider, db }) => ({
      async forkInstances(forks) {
        const results = await provider.forkInstances(forks);
        db.exec(`DELETE FROM instance_state WHERE key = 'gone'`);
        return results;
      },
    }),
  },
];
