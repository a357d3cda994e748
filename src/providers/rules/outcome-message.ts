import { ProviderError, type CancelTrigger } from '../../model/failures/errors.ts';
import type { Failure } from '../../model/failures/failure.ts';
import { encodeMessage, type StoredMessage } from '../../model/message.ts';
import type { WorkOutcome } from '../contract/work-queue.ts';

/** The cancel request of an item. */
interface Cancel {
  readonly cancelReason: string | null;
  readonly cancelTrigger: CancelTrigger | null;
}

/** Encodes the outcome of an activity as a message to its execution. `cancelOf` is called only for a canceled item. */
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

/** Parses the failure of an outcome. Throws `PROVIDER` for invalid JSON, before anything is stored. */
export function parseFailure(text: string): Failure {
  try {
    return JSON.parse(text) as Failure;
  } catch (cause) {
    throw new ProviderError({
      operation: 'ackWorkItems',
      message: 'ackWorkItems: `failure` is not valid JSON. Pass a Failure as JSON text.',
      retryable: false,
      cause,
    });
  }
}
