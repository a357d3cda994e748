import { ProviderError } from '../../model/errors.ts';
import type { Failure } from '../../model/failure.ts';
import { encodeMessage, type StoredMessage } from '../../model/message.ts';
import type { WorkOutcome } from '../work-queue.ts';
import type { HeldItem } from './work-items.ts';

/** An item that has ended for good. */
export interface Settlement {
  readonly item: HeldItem;
  readonly outcome: WorkOutcome;
}

/** What the execution of an item is told of its end. */
export function outcomeMessage(item: HeldItem, outcome: WorkOutcome): StoredMessage {
  const { executionId, operation } = item;
  switch (outcome.kind) {
    case 'completed': {
      const { payload, ran = {} } = outcome;
      const data = JSON.stringify(ran);
      return { kind: 'activityCompleted', executionId, operation, data, payload };
    }
    case 'failed': {
      const failure = parseFailure(outcome.failure);
      return encodeMessage({
        kind: 'activityFailed',
        executionId,
        operation,
        failure,
        ...outcome.ran,
      });
    }
    case 'skipped':
      throw new ProviderError({
        operation: 'ackWorkItems',
        message: 'ackWorkItems: an activity cannot be skipped. Ack it as completed or failed.',
        retryable: false,
      });
    case 'canceled':
      return encodeMessage({
        kind: 'activityCanceled',
        executionId,
        operation,
        trigger: item.cancelTrigger ?? 'cancel',
        reason: item.cancelReason ?? 'canceled',
        ...(outcome.leaked && { leaked: true }),
        ...outcome.ran,
      });
  }
}

/** Reads a failure as it was acked. */
export function parseFailure(text: string): Failure {
  try {
    return JSON.parse(text) as Failure;
  } catch (cause) {
    throw new ProviderError({
      operation: 'ackWorkItems',
      message: 'ackWorkItems: the failure is not JSON. Pass the JSON text of a Failure.',
      retryable: false,
      cause,
    });
  }
}
