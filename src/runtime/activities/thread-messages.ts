import type { CancelTrigger } from '../../model/failures/errors.ts';
import type { Failure } from '../../model/failures/failure.ts';
import type { Logger } from '../../model/logger.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { Headers } from '../../model/work-item-options.ts';

/** What a thread is given to run one attempt of an isolated activity or task. */
export interface ThreadTask {
  readonly module: string;
  readonly exportName: string;
  readonly payload: Payload | null;
  readonly payloadLimitBytes: number;
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
  readonly activityName: string;
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly lastHeartbeat: Payload | null;
  /** Those of a task run; absent for an activity. */
  readonly headers?: Headers;
  /** One `Int32`; not 0 once the signal is aborted, also before the message about that has arrived. */
  readonly aborted: SharedArrayBuffer;
}

/** What the worker tells the thread. */
export type FromHost =
  /** The claim still holds: call the handler. */
  | { readonly kind: 'begin' }
  | { readonly kind: 'abort'; readonly reason: string; readonly trigger: CancelTrigger }
  | { readonly kind: 'passed' }
  | { readonly kind: 'refused'; readonly reason: string; readonly trigger: CancelTrigger }
  /** The point of no return is not for this call. */
  | { readonly kind: 'invalid'; readonly message: string }
  /** What became of the wish to cancel the run; with a message, it failed. */
  | { readonly kind: 'cancelAnswered'; readonly problem?: string }
  /** What became of the oldest chunk that was not answered. */
  | { readonly kind: 'emitted'; readonly isRead: boolean }
  | { readonly kind: 'emitRefused'; readonly reason: string; readonly trigger: CancelTrigger }
  | { readonly kind: 'emitFailed'; readonly message: string };

/** What the thread tells the worker. */
export type FromThread =
  /** The module is loaded: the handler can be called. */
  | { readonly kind: 'loaded' }
  | { readonly kind: 'completed'; readonly payload: Payload | null }
  | {
      readonly kind: 'failed';
      readonly failure: Failure;
      /** The names of the classes of what was thrown. */
      readonly classes: readonly string[];
      /** It threw the reason of its own aborted signal. */
      readonly stopped: boolean;
      /** One of our own errors: trying again would not help. */
      readonly refused: boolean;
    }
  | { readonly kind: 'heartbeat'; readonly payload: Payload | null }
  | { readonly kind: 'pointOfNoReturn' }
  | { readonly kind: 'emit'; readonly payload: Payload | null }
  | { readonly kind: 'cancelRun'; readonly reason: string | undefined }
  | {
      readonly kind: 'log';
      readonly level: keyof Logger;
      readonly fields: object;
      readonly message: string;
    };
