import type { HostProcess, HostProcesses } from '../../../src/runtime/leases/host-processes.ts';
import type { SimProcess, World } from './scheduler.ts';

/** Pids are few, so that a process gets the pid of a dead one. */
const pids = 3;

/** A machine whose processes can check each other. */
export class SimHost {
  readonly #world: World;
  readonly #hostId: string;
  /** All processes that ran here, by their start time. */
  readonly #processes = new Map<string, SimProcess>();

  constructor(world: World, hostId: string) {
    this.#world = world;
    this.#hostId = hostId;
  }

  add(process: SimProcess): void {
    this.#processes.set(process.name, process);
  }

  has(process: SimProcess): boolean {
    return this.#processes.has(process.name);
  }

  /** The processes of this host, for one of them. Its name is its start time. */
  seenBy(process: SimProcess): HostProcesses {
    const index = [...this.#processes.values()].indexOf(process);
    return {
      hostId: this.#hostId,
      self: { pid: 1 + (index % pids), startTime: process.name },
      hasDied: ({ startTime }: HostProcess) => {
        const other = this.#processes.get(startTime);
        if (other === undefined) {
          this.#world.violate(`${process.name} checks ${startTime}, which is on another host`);
        }
        return other?.isDead === true;
      },
    };
  }
}
