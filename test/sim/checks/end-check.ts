import { checkSqliteInvariants } from '../../limits/sqlite-invariants.ts';
import { findRemainingRows } from '../../model/helpers/find-remaining-rows.ts';
import type { Simulation } from '../simulation.ts';

/** Queries that return rows only if something is left behind after all work has ended. */
const remains: Readonly<Record<string, string>> = {
  'a queued message': 'SELECT instance_key FROM orchestrator_queue',
  'a work item': 'SELECT instance_key FROM worker_queue',
  'a claimed instance': 'SELECT instance_key FROM instance_locks WHERE lock_token IS NOT NULL',
  'a place of an instance': 'SELECT instance_key FROM instance_places',
  'a place of a definition': 'SELECT definition_key FROM limits WHERE running <> 0',
  'a place of a lane': 'SELECT lane FROM lanes WHERE running <> 0',
  'a dedupe key': 'SELECT dedupe_key FROM dedupe_keys',
};

/** Checks everything that must hold once all work has ended. */
export async function checkEnd(simulation: Simulation): Promise<void> {
  const { world, store, model, workload, fleet, takeovers } = simulation;
  await world.settle(() => model.checkHistories());
  const rows = await world.settle(() => findRemainingRows(store.provider, model.model.gone));
  for (const what of rows ?? []) world.violate(what);
  for (const part of workload.parts) {
    if (part.check !== undefined) await world.settle(() => part.check?.() ?? Promise.resolve());
  }
  if (world.violations.length > 0) return;
  // The workers free their slots after their last commit.
  const areFree = (): boolean =>
    fleet.workers.every(({ worker }) => usedSlots(worker?.metrics) === 0);
  // To format the metrics takes longer than most steps.
  await world.run(() => world.steps % 16 === 0 && areFree(), 5_000);
  for (const { process, worker } of fleet.workers) {
    const used = usedSlots(worker?.metrics);
    if (used > 0) world.violate(`${used} slots of ${process.name} are lost`);
  }
  await world.run(() => takeovers.forgotten(fleet.workers).length === 0, 5_000);
  for (const { name } of takeovers.forgotten(fleet.workers)) {
    world.violate(`${name} has died, and its claims are not taken over`);
  }
  checkRows(simulation);
}

/** Reads the number of used slots from the metrics of a worker. */
function usedSlots(metrics = ''): number {
  return Number(/perdure_process_slots\{state="used"\} (\d+)/.exec(metrics)?.[1] ?? 0);
}

function checkRows({ world, store }: Simulation): void {
  for (const [what, sql] of Object.entries(remains)) {
    const left = store.db.prepare(sql).all();
    if (left.length > 0) world.violate(`${what} is left: ${JSON.stringify(left)}`);
  }
  for (const { name } of tablesOfInstances(store)) {
    const sql = `SELECT count(*) FROM ${name} WHERE instance_key NOT IN (SELECT instance_key FROM instances)
      AND instance_key NOT IN (SELECT instance_key FROM pending_reclaims)
      AND instance_key NOT IN (SELECT instance_key FROM streams WHERE is_deleted = 1)`;
    const orphans = store.db.prepare<[], number>(sql).pluck().get() ?? 0;
    if (orphans > 0) world.violate(`${orphans} rows of ${name} have no instance`);
  }
  try {
    checkSqliteInvariants(store.db, store.provider.clock?.now() ?? 0);
  } catch (error) {
    world.violate(error instanceof Error ? error.message : String(error));
  }
}

function tablesOfInstances({ db }: Simulation['store']): readonly { readonly name: string }[] {
  return db
    .prepare<[], { readonly name: string }>(
      `SELECT tables.name FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
       WHERE tables.type = 'table' AND columns.name = 'instance_key'
         AND tables.name NOT IN ('instances', 'pending_reclaims', 'streams')`,
    )
    .all();
}
