import { ProviderError, type CancelTrigger } from '../../model/failures/errors.ts';
import type { Failure } from '../../model/failures/failure.ts';
import { encodeMessage, type StoredMessage } from '../../model/message.ts';
import type { WorkOutcome } from '../contract/work-queue.ts';

/** Why an item was asked to stop. */
interface Cancel {
  readonly cancelReason: string | null;
  readonly cancelTrigger: CancelTrigger | null;
}

/** What the execution of an item is told of its end; why it was to stop is asked only where it did. */
export function outcomeMessage(
  { executionId, operation }: { readonly executionId: number; readonly operation: number },
  outcome: WorkOutcome,
  cancelOf: () => Cancel,
): StoredMessage {
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
    case 'canceled': {
      const { cancelReason, cancelTrigger } = cancelOf();
      return encodeMessage({
        kind: 'activityCanceled',
        executionId,
        operation,
        trigger: cancelTrigger ?? 'cancel',
        reason: cancelReason ?? 'canceled',
        ...(outcome.leaked && { leaked: true }),
        ...outcome.ran,
      });
    }
  }
}

/** Reads the failure of an outcome; one that is no JSON is refused before it can be stored. */
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
