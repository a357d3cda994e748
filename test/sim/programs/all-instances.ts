import type { Definitions } from '../engine/fleet.ts';
import type { Simulation } from '../simulation.ts';
import type { WorkPart } from './workload.ts';

/** All instances and sessions of the store: each must end, no matter which process started it. */
export class AllInstances implements WorkPart {
  readonly #simulation: Simulation;
  readonly #select;
  #seenCommits = -1;
  #open: readonly string[] = [];

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#select = simulation.store.db
      .prepare<[], string>(
        `SELECT instance_id FROM instances WHERE ended_at IS NULL OR on_fail IN ('queued', 'running')
         UNION ALL SELECT session_id FROM sessions WHERE state <> 'ended'
         UNION ALL SELECT 'item of ' || instance_key FROM worker_queue`,
      )
      .pluck();
  }

  define(): Definitions {
    return {};
  }

  begin(): void {
    // The other parts start instances.
  }

  heal(): void {
    // The other parts resume their own instances.
  }

  unfinished(): readonly string[] {
    const { commits } = this.#simulation;
    if (commits !== this.#seenCommits) {
      this.#seenCommits = commits;
      this.#open = this.#select.all();
    }
    return this.#open;
  }
}
