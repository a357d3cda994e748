/** The settings of a program of the crash loop, passed on its command line. */
export interface ProgramOptions {
  /** The path of the database file, or the URL of the database. */
  readonly store: string;
  readonly ledger: string;
  /** Unique among the programs of a loop; prefix of the ids of its instances. */
  readonly name: string;
  readonly leaseMs: number;
  /** If false, every lock token counts as valid. */
  readonly fencing: boolean;
  /** How many of its own instances it keeps active. Of an operator: the number of its actions. */
  readonly inFlight: number;
  /** The store may be unavailable for a while: its errors are then expected. */
  readonly outages: boolean;
  /** Operators may stop instances and retry them. */
  readonly operators: boolean;
}

/** From the harness to a program. */
export type Command = 'startNoMore' | 'stop';

export function readOptions(): ProgramOptions {
  return JSON.parse(process.argv[2] ?? '') as ProgramOptions;
}

/** Reports to the harness that this program is running. */
export function reportReady(): void {
  process.send?.('ready');
}

function exitWithoutParent(): void {
  process.exit(1);
}

/** Calls back on a command. Exits when the harness exits. */
export function onCommand(listener: (command: Command) => void): void {
  process.on('message', (message) => listener(message as Command));
  process.on('disconnect', exitWithoutParent);
}

/** Closes the channel, so that the process can exit. */
export function disconnect(): void {
  process.off('disconnect', exitWithoutParent);
  process.disconnect();
}
