/** A process that claims work, as its host knows it. */
export interface NewProcess {
  /** Names the host: only processes with the same one can judge whether this one lives. */
  readonly hostId: string;
  readonly pid: number;
  /** When it started, in the words of the host: tells it from a later process with its pid. */
  readonly startTime: string;
  /** The longest lease of its claims. */
  readonly leaseMs: number;
}

/** A registered process. */
export interface ProcessRecord {
  /** The store's name for it. */
  readonly processId: string;
  readonly pid: number;
  readonly startTime: string;
}

/** Which processes claim work, so that others on their host can take over from those that died. */
export interface ProcessStore {
  /**
   * Registers the process of this provider; again: with what is given now. Its claims are those made through this provider.
   *
   * A provider must:
   * - keep it until it is unregistered or taken over, one per provider (process/is-listed-for-its-host,
   *   process/is-registered-once)
   * - drop processes that were registered a day ago and not again since (process/is-forgotten-after-a-day)
   */
  registerProcess(process: NewProcess): Promise<void>;

  /**
   * Removes the process of this provider, which has handed back all that it had claimed.
   *
   * A provider must:
   * - remove this one alone, and end no lease (process/leaves-alone)
   */
  unregisterProcess(): Promise<void>;

  /**
   * Lists the other processes of a host.
   *
   * A provider must:
   * - list those registered with this `hostId`, by other providers (process/is-listed-for-its-host)
   */
  listProcesses(hostId: string): Promise<readonly ProcessRecord[]>;

  /**
   * Ends the leases of processes that died, and removes the processes, in one transaction; returns how many leases it ended.
   *
   * A provider must:
   * - end every lease on instances and work items that they hold now, as if its time had come: what was claimed is handed
   *   out again, with its claims counted, and the tokens are worth nothing (takeover/ends-the-claims-of-the-dead,
   *   takeover/counts-as-an-expired-lease, takeover/takes-claims-made-with-a-turn, takeover/takes-renewed-claims,
   *   takeover/lets-anyone-end-what-was-canceled)
   * - touch no claim of another process, whatever its host (takeover/spares-the-living)
   * - leave sessions and named leases alone (takeover/leaves-sessions-and-leases)
   * - wake fetches that wait, in this process too (takeover/wakes-waiting-fetches)
   * - remove a process once none of its leases is left (takeover/ends-the-claims-of-the-dead)
   * - do nothing for a process that is not there (takeover/can-be-repeated)
   */
  takeOverClaims(processIds: readonly string[]): Promise<number>;
}
