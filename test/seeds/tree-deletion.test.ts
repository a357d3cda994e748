/** The seed case about atomic deletions of several instances; docs/seed-tests.md maps it. */
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import type { Provider } from 'perdure';
import { child, event, newInstance, newTurn } from '../../src/testing/conformance/sample-data.ts';
import { runSql } from '../postgres/helpers/server.ts';
import { temporaryStore as temporaryPostgres } from '../postgres/helpers/temporary-store.ts';
import { temporaryStore as temporarySqlite } from '../sqlite/helpers/temporary-store.ts';

/** A store whose deletion of the row of `root` can be made to fail. */
interface FailingStore {
  readonly provider: Provider;
  readonly fail: () => Promise<void>;
  readonly recover: () => Promise<void>;
}

const stores: Readonly<Record<string, () => Promise<FailingStore>>> = {
  async SQLite() {
    const { open, path } = temporarySqlite();
    const run = async (sql: string): Promise<void> => {
      const db = new Database(path);
      db.exec(sql);
      db.close();
    };
    return {
      provider: await open(),
      fail: () =>
        run(`CREATE TRIGGER fails BEFORE DELETE ON instances WHEN OLD.instance_id = 'root'
             BEGIN SELECT RAISE(ABORT, 'disk failure'); END`),
      recover: () => run('DROP TRIGGER fails'),
    };
  },
  async PostgreSQL() {
    const { open, url } = await temporaryPostgres();
    return {
      provider: await open({ listen: false }),
      fail: () =>
        runSql(
          url,
          `CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql
             AS $$ BEGIN RAISE EXCEPTION 'disk failure'; END $$;
           CREATE TRIGGER fails BEFORE DELETE ON perdure.instances FOR EACH ROW
             WHEN (OLD.instance_id = 'root') EXECUTE FUNCTION fails()`,
        ),
      recover: () => runSql(url, 'DROP TRIGGER fails ON perdure.instances'),
    };
  },
};

it.each(Object.entries(stores))(
  'a tree deletion on %s that fails midway leaves the whole tree',
  async (_name, openStore) => {
    const { provider, fail, recover } = await openStore();
    const ids = ['kid 1', 'kid 2', 'root'];
    const children = [child('kid 1', 1), child('kid 2', 2)];
    const firstTurn = newTurn({ events: [event('begun')], children });
    await provider.createInstances([newInstance('root', { firstTurn })]);
    const state = async () => ({
      records: await provider.getInstances(ids),
      sizes: await Promise.all(ids.map((id) => provider.measureInstance(id))),
    });
    const before = await state();
    expect(before.records.every((record) => record !== undefined)).toBe(true);
    await fail();
    const tree = { instanceIds: ids, force: true };
    await expect(provider.deleteInstancesAtomic([tree])).rejects.toThrow('disk failure');
    expect(await state()).toEqual(before);
    await recover();
    expect(await provider.deleteInstancesAtomic([tree])).toMatchObject([
      { kind: 'deleted', counts: { instancesDeleted: 3 } },
    ]);
    expect(await provider.getInstances(ids)).toEqual([undefined, undefined, undefined]);
  },
);
