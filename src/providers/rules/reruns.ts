import { isRetryable, type InstanceStatus } from '../../model/status.ts';
import type { InstanceRetry, RerunRefusal, RerunSource } from '../contract/reruns.ts';
import { oneInstance, type AuditedStep } from './audit-sums.ts';

/** The row of a source. */
interface SourceRow {
  readonly incarnation: string;
  readonly executionId: number;
  readonly historyLength: number;
  readonly status: InstanceStatus;
  readonly parentInstanceId: string | null;
}

/** Returns why an instance cannot be retried, as far as its row shows. */
export function retryRefusal(
  row: SourceRow | undefined,
  source: RerunSource,
): RerunRefusal | undefined {
  const refusal = sourceRefusal(row, source);
  if (refusal !== undefined || row === undefined) return refusal;
  if (!isRetryable(row.status)) return { kind: 'status', status: row.status };
  const isCurrent =
    row.executionId === source.executionId && row.historyLength === source.historyLength;
  return isCurrent ? undefined : { kind: 'changed' };
}

/** Returns why an instance cannot be forked. `historyLength` is that of the source's execution, if it exists. */
export function forkRefusal(
  row: SourceRow | undefined,
  source: RerunSource,
  historyLength: number | undefined,
): RerunRefusal | undefined {
  const refusal = sourceRefusal(row, source);
  if (refusal !== undefined) return refusal;
  return (historyLength ?? -1) < source.historyLength ? { kind: 'changed' } : undefined;
}

function sourceRefusal(
  row: SourceRow | undefined,
  { incarnation }: RerunSource,
): RerunRefusal | undefined {
  if (row?.incarnation !== incarnation) return { kind: 'missing' };
  const { parentInstanceId } = row;
  return parentInstanceId === null ? undefined : { kind: 'child', parentInstanceId };
}

/** The result of a fork whose id is taken: a repeat of the same fork, or a conflict. */
export function existingFork(
  existing: {
    readonly forkedFrom: string | null;
    readonly inputHash: string;
    readonly name: string;
  },
  wanted: { readonly forkedFrom: string; readonly inputHash: string; readonly name: string },
): { readonly kind: 'exists' } | { readonly kind: 'conflict'; readonly name: string } {
  const isSame =
    existing.forkedFrom === wanted.forkedFrom &&
    existing.inputHash === wanted.inputHash &&
    existing.name === wanted.name;
  return isSame ? { kind: 'exists' } : { kind: 'conflict', name: existing.name };
}

/** What the audit records of a retry. */
export function toStep({ audit: entry, bulkKey: progressKey }: InstanceRetry): AuditedStep {
  return { entry, counts: oneInstance, ...(progressKey !== undefined && { progressKey }) };
}
