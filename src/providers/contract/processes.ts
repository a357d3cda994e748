/** A process that claims work. */
export interface NewProcess {
  /** Identifies the host. Only processes on the same host can check whether this one is alive. */
  readonly hostId: string;
  readonly pid: number;
  /** When it started, in a format of the host. Distinguishes it from a later process with the same pid. */
  readonly startTime: string;
  /** The longest lease of its claims. */
  readonly leaseMs: number;
}

/** A registered process. */
export interface ProcessRecord {
  /** The id that the store assigned. */
  readonly processId: string;
  readonly pid: number;
  readonly startTime: string;
}

/** Registers processes, so that others on the same host can take over the claims of dead ones. */
export interface ProcessStore {
  /**
   * Registers the process of this provider, or updates its registration. Its claims are those made through this provider.
   *
   * A provider must:
   * - keep it until it is unregistered or taken over, one per provider (process/is-listed-for-its-host,
   *   process/is-registered-once)
   * - delete registrations that were not renewed for a day, unless a worker of the process was seen within that time
   *   (process/is-forgotten-after-a-day, process/is-kept-by-its-workers)
   */
  registerProcess(process: NewProcess): Promise<void>;

  /**
   * Removes the registration of this provider, after it has handed back all claims.
   *
   * A provider must:
   * - remove only this one, and end no lease (process/leaves-alone)
   */
  unregisterProcess(): Promise<void>;

  /**
   * Lists the other processes of a host.
   *
   * A provider must:
   * - list processes that other providers registered with this `hostId` (process/is-listed-for-its-host)
   */
  listProcesses(hostId: string): Promise<readonly ProcessRecord[]>;

  /**
   * Expires the leases of dead processes and removes their registrations, in one transaction. Returns the number of leases.
   *
   * A provider must:
   * - expire every lease on instances and work items that they hold: the work can be claimed again, its claims count,
   *   and the tokens are invalid (takeover/ends-the-claims-of-the-dead, takeover/counts-as-an-expired-lease,
   *   takeover/takes-claims-made-with-a-turn, takeover/takes-renewed-claims,
   *   takeover/lets-any-worker-end-what-was-canceled)
   * - change no claim of another process, on any host (takeover/spares-the-living)
   * - leave sessions and named leases unchanged (takeover/leaves-sessions-and-leases)
   * - wake waiting fetches, also in this process (takeover/wakes-waiting-fetches)
   * - mark the workers of the processes as dead (worker/a-takeover-marks-the-dead)
   * - remove a process when none of its leases is left (takeover/ends-the-claims-of-the-dead)
   * - do nothing for an unknown process (takeover/can-be-repeated)
   */
  takeOverClaims(processIds: readonly string[]): Promise<number>;
}
