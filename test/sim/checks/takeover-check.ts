import type Database from 'better-sqlite3';
import type { ObservedCall } from '../engine/connection.ts';
import type { Member } from '../engine/fleet.ts';
import type { SimProcess, World } from '../engine/scheduler.ts';
import type { ClaimCheck } from './claim-check.ts';
import type { ModelCheck } from './model-check.ts';

interface TakeoverCheckParams {
  readonly world: World;
  readonly claims: ClaimCheck;
  readonly model: ModelCheck;
  readonly db: Database.Database;
  readonly now: () => number;
}

/** Checks that takeovers end the leases of dead processes, all of them, and no others. */
export class TakeoverCheck {
  readonly #params: TakeoverCheckParams;
  readonly #registered = new Set<string>();
  /** The processes that were taken over in this step. */
  #taken: string[] = [];

  constructor(params: TakeoverCheckParams) {
    this.#params = params;
  }

  observe({ process, method, args, result }: ObservedCall): void {
    if (method === 'registerProcess') this.#registered.add(process.processId);
    if (method === 'unregisterProcess') this.#registered.delete(process.processId);
    if (method !== 'takeOverClaims') return;
    const { world, claims, model } = this.#params;
    const processIds = args[0] as readonly string[];
    // A request of a killed process may claim after its takeover. The next takeover ends that claim if it is also of a registered process.
    const isOfRegistered = processIds.some((processId) => this.#registered.has(processId));
    for (const processId of processIds) {
      const other = world.processes.get(processId);
      if (other?.isDead !== true) {
        world.violate(`${process.name} takes over the claims of ${processId}, which is alive`);
        continue;
      }
      if (!isOfRegistered) continue;
      this.#registered.delete(processId);
      claims.takenOver(other);
      model.takenOver(processId);
      this.#taken.push(processId);
    }
    if ((result as number) > 0) world.reached.add('fault takeover');
  }

  /** All commits of a step are observed: no lease may be left that was taken over. */
  settled(): void {
    if (this.#taken.length === 0) return;
    const { world, claims, db, now } = this.#params;
    const ids = JSON.stringify(this.#taken);
    this.#taken = [];
    for (const [table, key] of [
      ['worker_queue', 'item_key'],
      ['instance_locks', 'instance_key'],
    ]) {
      const sql = `SELECT ${key} || '.' || lock_token FROM ${table} WHERE locked_until > ?
        AND substr(lock_token, 1, 8) IN (SELECT value FROM json_each(?))`;
      for (const token of db.prepare<[number, string], string>(sql).pluck().all(now(), ids)) {
        const what = claims.endedClaim(token);
        if (what !== undefined) world.violate(`a takeover leaves the lease on ${what}`);
      }
    }
  }

  /** Processes that are registered although they have died, on a host with a living worker. */
  forgotten(workers: readonly Member[]): readonly SimProcess[] {
    const { db, world } = this.#params;
    const ids = db.prepare<[], string>('SELECT process_id FROM processes').pluck().all();
    const canCheck = (dead: SimProcess): boolean =>
      workers.some(({ host, isStopping, process }) => {
        return host?.has(dead) === true && !isStopping && !process.isDead;
      });
    return ids.flatMap((id) => {
      const process = world.processes.get(id);
      return process?.isDead === true && canCheck(process) ? process : [];
    });
  }
}
