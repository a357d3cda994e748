import { isTerminal, type TerminalStatus } from '../../../model/status.ts';
import type { WorkOutcome } from '../../contract/work-queue.ts';
import type { Batch } from '../batches/changes.ts';
import type { InstanceRow } from '../tables/instance-rows.ts';
import type { RunEnd } from '../tables/task-rows.ts';
import {
  onFailOperation,
  taskOperation,
  type HeldItem,
  type Settlement,
} from '../tables/work-items.ts';
import { parseFailure } from '../../rules/outcome-message.ts';

/** Says whether an item is a task run itself. */
export function isRun({ instances }: Batch, { instanceKey, operation }: HeldItem): boolean {
  return operation === taskOperation && instances.get(instanceKey)?.isTask === true;
}

/** Decides what the end of an item does to the run that it belongs to; answers how the run has ended by that. */
export function settleRun(
  { scope, instances, changes }: Batch,
  run: InstanceRow,
  { item, outcome }: Settlement,
): TerminalStatus | undefined {
  const { instanceKey } = run;
  if (outcome.kind === 'failed') parseFailure(outcome.failure);
  if (item.operation === onFailOperation) {
    const failure = outcome.kind === 'failed' ? outcome.failure : null;
    const state = outcome.kind === 'completed' ? 'completed' : 'failed';
    changes.tasks.onFailEnds.push({ instanceKey, state, failure });
    return undefined;
  }
  if (isTerminal(run.status)) {
    // Terminated before: what remains of it is its key.
    changes.tasks.freeKey(run);
    return undefined;
  }
  // What was asked to stop has stopped, whatever it brings.
  const end = toEnd(item.cancelRequested ? { kind: 'canceled', leaked: false } : outcome);
  changes.tasks.end(scope, run, { ...end, startedAt: item.startedAt });
  instances.update(instanceKey, { status: end.status });
  return end.status;
}

function toEnd(outcome: WorkOutcome): Omit<RunEnd, 'instanceKey' | 'startedAt'> {
  switch (outcome.kind) {
    case 'completed':
      return { status: 'completed', output: outcome.payload };
    case 'failed':
      return { status: 'failed', failure: outcome.failure, onFail: outcome.onFail };
    case 'skipped':
      return { status: 'skipped' };
    case 'canceled':
      return { status: 'canceled', reason: 'canceled', actor: null };
  }
}
