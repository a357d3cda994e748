import type { Ran } from '../../model/event.ts';
import type { Failure } from '../../model/failures/failure.ts';
import type { Message } from '../../model/message.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { WorkItem, WorkOutcome } from '../../providers/contract/work-queue.ts';

/** How an activity ended for good. */
export type Outcome =
  | { readonly kind: 'completed'; readonly payload: Payload | null }
  | { readonly kind: 'failed'; readonly failure: Failure }
  /** The condition of a task did not hold. */
  | { readonly kind: 'skipped' }
  | { readonly kind: 'canceled'; readonly leaked: boolean };

/** A work item together with its final outcome, not yet acked. */
export interface SettledActivity {
  readonly item: WorkItem;
  readonly outcome: Outcome;
  /** Who ran it; absent when nobody did. */
  readonly ran?: Ran;
  /** A handler is to be run after the failure of this task. */
  readonly hasOnFail?: boolean;
  /** What to do with the result of a task that the store discards. */
  readonly onDiscarded?: ((payload: Payload | null) => Promise<void>) | undefined;
}

/** The message that the store would deliver for this outcome: what a turn in memory applies instead. */
export function toMessage(settled: SettledActivity): Message | undefined {
  const { executionId, operation } = settled.item;
  const { outcome, ran } = settled;
  switch (outcome.kind) {
    case 'completed':
      return {
        kind: 'activityCompleted',
        executionId,
        operation,
        payload: outcome.payload,
        ...ran,
      };
    case 'failed':
      return { kind: 'activityFailed', executionId, operation, failure: outcome.failure, ...ran };
    case 'skipped':
    case 'canceled':
      return undefined;
  }
}

/** The outcome as a store takes it. */
export function toWorkOutcome({ item, outcome, ran, hasOnFail }: SettledActivity): WorkOutcome {
  if (outcome.kind === 'skipped') return outcome;
  const known = ran !== undefined && { ran };
  if (outcome.kind !== 'failed') return { ...outcome, ...known };
  return {
    kind: 'failed',
    failure: JSON.stringify(outcome.failure),
    ...known,
    // It is given the headers of the run, as its handler was.
    ...(hasOnFail === true && { onFail: { options: item.options } }),
  };
}
