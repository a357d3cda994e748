import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** One effect of a step, written by the activity itself. */
export interface LedgerEntry {
  readonly order: string;
  readonly step: string;
  readonly what: 'begun' | 'done';
  readonly pid: number;
}

/** Appends a line to the ledger: a plain file that Perdure does not use. */
export function writeLedger(path: string, entry: LedgerEntry): void {
  appendFileSync(path, `${JSON.stringify(entry)}\n`, { flush: true });
}

/** All entries of the ledger, oldest first. */
export function readLedger(path: string): readonly LedgerEntry[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as LedgerEntry);
}

/** How often a step was begun and done, across all processes. */
export interface StepCount {
  readonly order: string;
  readonly step: string;
  readonly begun: number;
  readonly done: number;
}

/** Counts the ledger entries per step. */
export function countSteps(entries: readonly LedgerEntry[]): readonly StepCount[] {
  const counts = new Map<string, { order: string; step: string; begun: number; done: number }>();
  for (const { order, step, what } of entries) {
    const key = `${order} ${step}`;
    const count = counts.get(key) ?? { order, step, begun: 0, done: 0 };
    count[what] += 1;
    counts.set(key, count);
  }
  return [...counts.values()];
}
