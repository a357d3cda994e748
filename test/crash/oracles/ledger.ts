/**
 * An independent record of what happened: one append-only file per process. Each line is one small write in append
 * mode, so it survives a SIGKILL of its writer.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';

/** A work item was claimed. The store's clock at the claim lies between `since` and `until`. */
export interface ClaimLine {
  readonly line: 'claim';
  readonly key: string;
  readonly token: string;
  readonly failures: number;
  readonly since: number;
  readonly until: number;
}

/** An effect began; `run` is unique to this execution and ends up in the recorded completion. */
export interface BeginLine {
  readonly line: 'begin';
  readonly key: string;
  readonly attempt: number;
  readonly run: string;
  readonly at: number;
}

export type LedgerLine =
  | ClaimLine
  | BeginLine
  | { readonly line: 'end'; readonly run: string; readonly failed: boolean; readonly at: number }
  | { readonly line: 'turnClaim'; readonly token: string }
  /** The claim is being settled: the response of the store is pending. */
  | { readonly line: 'settling'; readonly token: string; readonly by?: 'abandon' }
  | {
      readonly line: 'settled';
      readonly token: string;
      readonly how: 'acked' | 'refused' | 'retried' | 'abandoned';
      readonly at: number;
    }
  /** A lease was extended; `since` is before the call. */
  | { readonly line: 'renewed'; readonly token: string; readonly since: number }
  /** The process did not run between these times, for any reason. */
  | { readonly line: 'stalled'; readonly from: number; readonly to: number }
  /** A renewal got no response from the busy store for this long. */
  | { readonly line: 'waited'; readonly from: number; readonly to: number }
  /** The store acknowledged a start. */
  | { readonly line: 'started'; readonly id: string }
  | { readonly line: 'result'; readonly id: string; readonly value: unknown }
  | { readonly line: 'trouble'; readonly message: string }
  /** An operator changed this many instances. */
  | { readonly line: 'operated'; readonly action: OperatorAction; readonly changed: number }
  /** A worker took over this many claims of dead processes. */
  | { readonly line: 'tookOver'; readonly claims: number };

/** What an operator does in a loop. */
export type OperatorAction = 'pause' | 'pauseDefinition' | 'retry' | 'cancelBulk';

/** Writes the ledger of one process. */
export class Ledger {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, 'a');
  }

  write(line: LedgerLine): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
  }
}

/** Reads what a process has written so far. */
export function readLedger(path: string): readonly LedgerLine[] {
  return parseLines(readFrom(path, 0));
}

/** The tokens that a process holds by its ledger, and those that it is settling. Read incrementally. */
export class OpenClaims {
  readonly #path: string;
  readonly #held = new Set<string>();
  readonly #settling = new Set<string>();
  #offset = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Reads the new lines first. */
  read(): { readonly held: ReadonlySet<string>; readonly settling: ReadonlySet<string> } {
    for (const entry of this.#readNewLines()) this.#apply(entry);
    return { held: this.#held, settling: this.#settling };
  }

  #apply(entry: LedgerLine): void {
    if (entry.line === 'claim' || entry.line === 'turnClaim') this.#held.add(entry.token);
    else if (entry.line === 'settling') this.#settling.add(entry.token);
    else if (entry.line === 'settled') {
      this.#settling.delete(entry.token);
      // After a rejected ack, the slow path may settle the same claim in another way.
      this.#held.delete(entry.token);
    }
  }

  #readNewLines(): readonly LedgerLine[] {
    const text = readFrom(this.#path, this.#offset);
    const end = text.lastIndexOf('\n') + 1;
    this.#offset += Buffer.byteLength(text.slice(0, end));
    return parseLines(text.slice(0, end));
  }
}

function readFrom(path: string, offset: number): string {
  if (!existsSync(path)) return '';
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(Math.max(0, fstatSync(file).size - offset));
    const length = readSync(file, bytes, 0, bytes.length, offset);
    return bytes.toString('utf8', 0, length);
  } finally {
    closeSync(file);
  }
}

function parseLines(text: string): readonly LedgerLine[] {
  const lines = text.split('\n');
  // An incomplete last line does not count.
  lines.pop();
  return lines.map((line) => JSON.parse(line) as LedgerLine);
}
