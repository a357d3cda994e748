/**
 * The independent account of what really happened: one append-only file per process. A line is one small write
 * to a file opened for appending, so it survives a SIGKILL of its writer.
 */
import { openSync, readFileSync, writeSync } from 'node:fs';

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
  /** The claim is on its way to be settled: the answer of the store is still out. */
  | { readonly line: 'settling'; readonly token: string }
  | {
      readonly line: 'settled';
      readonly token: string;
      readonly how: 'acked' | 'refused' | 'retried' | 'abandoned';
      readonly at: number;
    }
  /** A lease was extended; `since` is before the store was asked. */
  | { readonly line: 'renewed'; readonly token: string; readonly since: number }
  /** The process did not run between these times, whoever's fault that was. */
  | { readonly line: 'stalled'; readonly from: number; readonly to: number }
  /** A renewal was sent, and the store did not answer for this long: others kept it busy. */
  | { readonly line: 'waited'; readonly from: number; readonly to: number }
  /** The store acknowledged a start. */
  | { readonly line: 'started'; readonly id: string }
  | { readonly line: 'result'; readonly id: string; readonly value: unknown }
  | { readonly line: 'trouble'; readonly message: string };

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

/** Reads what a process has written so far; a last line that was cut off does not count. */
export function readLedger(path: string): readonly LedgerLine[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  const lines = text.split('\n');
  lines.pop();
  return lines.map((line) => JSON.parse(line) as LedgerLine);
}

/** The tokens that a process holds by its own account, and those that it was just about to settle. */
export function openClaims(lines: readonly LedgerLine[]): {
  readonly held: ReadonlySet<string>;
  readonly settling: ReadonlySet<string>;
} {
  const held = new Set<string>();
  const settling = new Set<string>();
  for (const entry of lines) {
    if (entry.line === 'claim' || entry.line === 'turnClaim') held.add(entry.token);
    else if (entry.line === 'settling') settling.add(entry.token);
    else if (entry.line === 'settled') {
      settling.delete(entry.token);
      // After a refusal the slow path may settle the same claim in another way.
      held.delete(entry.token);
    }
  }
  return { held, settling };
}
