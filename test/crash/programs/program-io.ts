/** What a program of the crash loop is told on its command line. */
export interface ProgramOptions {
  /** The path of the database file, or the URL of the database. */
  readonly store: string;
  readonly ledger: string;
  /** Unique among the programs of a loop; begins the ids of the instances that it starts. */
  readonly name: string;
  readonly leaseMs: number;
  /** Without: every lock token counts as valid. */
  readonly fencing: boolean;
  /** How many of its own instances it keeps under way. */
  readonly inFlight: number;
  /** The store may be away for a while: that it fails then is no trouble. */
  readonly outages: boolean;
}

/** From the harness to a program. */
export type Command = 'startNoMore' | 'stop';

export function readOptions(): ProgramOptions {
  return JSON.parse(process.argv[2] ?? '') as ProgramOptions;
}

/** Tells the harness that this program is at work. */
export function reportReady(): void {
  process.send?.('ready');
}

function endAlone(): void {
  process.exit(1);
}

/** Calls back on a command; without its harness a program has nothing to live for. */
export function onCommand(listener: (command: Command) => void): void {
  process.on('message', (message) => listener(message as Command));
  process.on('disconnect', endAlone);
}

/** Lets the process end once nothing else keeps it. */
export function leave(): void {
  process.off('disconnect', endAlone);
  process.disconnect();
}
