import type { Pause } from '../helpers/killer.ts';
import type { BeginLine, ClaimLine, LedgerLine } from './ledger.ts';

/** The ledger of one process, with the faults injected into it. */
export interface ProcessRecord {
  readonly name: string;
  readonly lines: readonly LedgerLine[];
  /** When it was killed; `undefined` if it exited normally. */
  readonly killedAt: number | undefined;
  readonly pauses: readonly Pause[];
  /** When it could not reach the store. */
  readonly outages: readonly Outage[];
}

/** Server restarts and connection cuts. */
export interface Outage {
  readonly from: number;
  readonly to: number;
}

/** One claim of a work item, and its outcome. */
export interface Claim extends ClaimLine {
  readonly account: ProcessRecord;
  /** The lease was valid at least until this time. */
  heldUntil: number;
  settled?: 'acked' | 'refused' | 'retried' | 'abandoned';
  /** The process called the store to abandon it. If it was killed before the response, the store may have done so. */
  isAbandoning?: true;
}

/** One execution of an effect. */
interface Execution extends BeginLine {
  readonly account: ProcessRecord;
  ended: boolean;
  failed: boolean;
}

/** All claims and executions of one operation. */
export interface OperationRecord {
  readonly key: string;
  /** In claim order. */
  readonly claims: Claim[];
  readonly executions: Execution[];
}

/** Merges the ledgers of all processes by operation. */
export function collectOperations(
  accounts: readonly ProcessRecord[],
  leaseMs: number,
): ReadonlyMap<string, OperationRecord> {
  const operations = new Map<string, OperationRecord>();
  const operationOf = (key: string): OperationRecord => {
    const known = operations.get(key);
    if (known !== undefined) return known;
    const fresh = { key, claims: [], executions: [] };
    operations.set(key, fresh);
    return fresh;
  };
  for (const account of accounts) {
    const claims = new Map<string, Claim>();
    const executions = new Map<string, Execution>();
    for (const entry of account.lines) {
      if (entry.line === 'claim') {
        const claim = { ...entry, account, heldUntil: entry.since + leaseMs };
        claims.set(entry.token, claim);
        operationOf(entry.key).claims.push(claim);
      } else if (entry.line === 'begin') {
        const execution = { ...entry, account, ended: false, failed: false };
        executions.set(entry.run, execution);
        operationOf(entry.key).executions.push(execution);
      } else if (entry.line === 'end') {
        const execution = executions.get(entry.run);
        if (execution !== undefined)
          Object.assign(execution, { ended: true, failed: entry.failed });
      } else if (entry.line === 'renewed') {
        const claim = claims.get(entry.token);
        if (claim !== undefined) claim.heldUntil = entry.since + leaseMs;
      } else if (entry.line === 'settling' && entry.by === 'abandon') {
        const claim = claims.get(entry.token);
        if (claim !== undefined) claim.isAbandoning = true;
      } else if (entry.line === 'settled') {
        const claim = claims.get(entry.token);
        // A retried abandon is refused if the first one took effect.
        if (claim !== undefined && claim.settled !== 'abandoned') claim.settled = entry.how;
      }
    }
  }
  for (const { claims, executions } of operations.values()) {
    claims.sort((a, b) => a.since - b.since);
    executions.sort((a, b) => a.at - b.at);
  }
  return operations;
}

/**
 * Whether the process did not run in between, because of a signal or the machine, for a third of a lease in total: the
 * delay of a renewal after which there is no second try.
 */
export function wasStopped(
  { pauses, lines }: ProcessRecord,
  { from, to, leaseMs }: { readonly from: number; readonly to: number; readonly leaseMs: number },
): boolean {
  if (pauses.some((pause) => pause.from < to && pause.to > from)) return true;
  let stalledMs = 0;
  for (const entry of lines) {
    if (entry.line !== 'stalled') continue;
    stalledMs += Math.max(0, Math.min(entry.to, to) - Math.max(entry.from, from));
  }
  return stalledMs >= leaseMs / 3;
}

/** Whether the process could not reach the store at some time in between. */
export function wasCutOff({ outages, lines }: ProcessRecord, from: number, to: number): boolean {
  const overlaps = (time: Outage): boolean => time.from < to && time.to > from;
  return outages.some(overlaps) || lines.some((one) => one.line === 'waited' && overlaps(one));
}
