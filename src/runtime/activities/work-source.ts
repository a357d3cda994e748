/** Work that is fetched apart from the rest: it has a limit of its own, or is handled in batches. */
export interface WorkSource {
  /** Names of activities. */
  readonly names: readonly string[];
  /** Names of tasks. */
  readonly tasks: readonly string[];
  /** The task whose `onFail` items come with it. */
  readonly task?: string | undefined;
  /** Whether its items do not take a slot each. */
  readonly isBatch: boolean;
  /** Whether a slot is held for the next items. */
  readonly isGathering: boolean;
  /** How many items may be claimed now. */
  claimable(nowMs: number, freeSlots: number): number;
  /** When `claimable` may change by itself. `undefined`: only when a handler ends. */
  readonly availableAt: number | undefined;
  /** Sets the listener for the beginning and the end of gathering. */
  observe?(listener: WorkSourceListener): void;
}

export interface WorkSourceListener {
  opened(): void;
  closed(): void;
}
