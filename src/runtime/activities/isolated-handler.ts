import { Worker as Thread } from 'node:worker_threads';
import { withClasses, toError, type Failure } from '../../model/failures/failure.ts';
import {
  CanceledError,
  PerdureError,
  type CancelTrigger,
  type ErrorCode,
} from '../../model/failures/errors.ts';
import type { Logger } from '../../model/logger.ts';
import type { Headers } from '../../model/values/headers.ts';
import { decodePayload, type Payload } from '../../model/values/payload.ts';
import type { ActivityContext, HandlerSession } from '../../orchestration/activity-context.ts';
import { reportSafely } from '../maintenance/reports.ts';
import { findThreadModule } from '../thread-module.ts';
import { RunningTaskContext } from './running-context.ts';

function threadUrl(): URL {
  const url = findThreadModule('activities/activity-thread');
  if (url !== undefined) return url;
  throw new PerdureError(
    'INVALID_OPTION',
    'Isolated handlers cannot run from a bundle that contains perdure, because their thread module is missing. Mark `perdure` as external in the bundler.',
  );
}

/** A handler that runs in its own thread. */
export interface IsolatedHandler {
  readonly result: Promise<unknown>;
  /** Terminates the thread. Resolves when it has exited. */
  kill(): Promise<void>;
}

/** Starts an isolated handler with a context that mirrors `context`. */
export function startIsolated(params: {
  readonly isolated: { readonly module: string; readonly exportName: string };
  readonly context: ActivityContext;
  readonly payload: Payload | null;
  readonly lastHeartbeat: Payload | null;
  readonly payloadLimitBytes: number;
  /** Called when the module is loaded. Calls `call` if the handler may still start; rejects if it was canceled. */
  readonly begin: (call: () => void) => Promise<void>;
}): IsolatedHandler {
  const { isolated, context, payload, lastHeartbeat, payloadLimitBytes } = params;
  const aborted = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const call: ThreadCall = {
    ...isolated,
    payload,
    payloadLimitBytes,
    lastHeartbeat,
    instanceId: context.instanceId,
    executionId: context.executionId,
    orchestrationName: context.orchestrationName,
    activityName: context.activityName,
    attempt: context.attempt,
    idempotencyKey: context.idempotencyKey,
    aborted,
    headers: context.headers,
    session: context.session,
    isTask: context instanceof RunningTaskContext,
  };
  const thread = new Thread(threadUrl(), { workerData: call });
  const send = (message: FromHost): void => thread.postMessage(message, []);
  const { signal } = context;
  const onAbort = (): void => {
    Atomics.store(new Int32Array(aborted), 0, 1);
    const { reason, trigger } = signal.reason as CanceledError;
    send({ kind: 'abort', reason, trigger });
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  const result = new Promise<unknown>((resolve, reject) => {
    thread.on('message', (message: FromThread) => {
      if (message.kind === 'loaded') params.begin(() => send({ kind: 'begin' })).catch(reject);
      else if (message.kind === 'completed') resolve(decodePayload(message.payload));
      else if (message.kind === 'failed') reject(toThrown(message, signal));
      else if (message.kind === 'heartbeat') context.heartbeat(decodePayload(message.payload));
      else if (message.kind === 'log') {
        const { level, fields, message: text } = message;
        reportSafely(context.log, () => context.log[level](fields, text));
      } else if (message.kind === 'cancelRun') void replyCancel(context, send, message.reason);
      else if (message.kind === 'emit') void replyEmit(context, send, message.payload);
      else void replyPointOfNoReturn(context, send);
    });
    thread.on('error', reject);
    thread.on('exit', (code) => {
      reject(
        new Error(
          `The thread of ${JSON.stringify(context.activityName)} exited with code ${code}.`,
        ),
      );
    });
  });
  return {
    result: result.finally(() => {
      signal.removeEventListener('abort', onAbort);
      void thread.terminate();
    }),
    kill: async () => {
      await thread.terminate();
    },
  };
}

async function replyPointOfNoReturn(
  context: ActivityContext,
  send: (message: FromHost) => void,
): Promise<void> {
  try {
    await context.pointOfNoReturn();
    send({ kind: 'passed' });
  } catch (error) {
    send({ kind: 'rejected', request: 'pointOfNoReturn', error: toRejection(error) });
  }
}

async function replyEmit(
  context: ActivityContext,
  send: (message: FromHost) => void,
  payload: Payload | null,
): Promise<void> {
  try {
    send({ kind: 'emitted', isRead: await context.emit(decodePayload(payload)) });
  } catch (error) {
    send({ kind: 'rejected', request: 'emit', error: toRejection(error) });
  }
}

async function replyCancel(
  context: ActivityContext,
  send: (message: FromHost) => void,
  reason: string | undefined,
): Promise<void> {
  try {
    if (context instanceof RunningTaskContext) await context.cancel(reason);
    send({ kind: 'cancelRequested' });
  } catch (error) {
    send({ kind: 'rejected', request: 'cancelRun', error: toRejection(error) });
  }
}

function toRejection(error: unknown): Rejection {
  if (error instanceof CanceledError) {
    return { kind: 'canceled', reason: error.reason, trigger: error.trigger };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { kind: 'failed', message, ...(PerdureError.is(error) && { code: error.code }) };
}

function toThrown(
  { failure, classes, stopped, code }: Extract<FromThread, { kind: 'failed' }>,
  signal: AbortSignal,
): Error {
  if (stopped && signal.aborted) return signal.reason as CanceledError;
  const error = toError(failure);
  return withClasses(
    code === undefined ? error : new PerdureError(code, failure.message, { cause: error }),
    classes,
  );
}

/** The `workerData` of a thread: one attempt of an isolated activity or task. */
export interface ThreadCall {
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
  readonly headers: Headers;
  readonly session: HandlerSession | undefined;
  /** Whether the handler gets the context of a task. */
  readonly isTask: boolean;
  /** One `Int32`, set to 1 when the signal aborts. It is visible before the `abort` message arrives. */
  readonly aborted: SharedArrayBuffer;
}

/** Messages from the worker to the thread. */
export type FromHost =
  /** The claim is still held: call the handler. */
  | { readonly kind: 'begin' }
  | { readonly kind: 'abort'; readonly reason: string; readonly trigger: CancelTrigger }
  | { readonly kind: 'passed' }
  /** `ctx.cancel()` succeeded. */
  | { readonly kind: 'cancelRequested' }
  /** The oldest chunk without a response was stored, or is not read. */
  | { readonly kind: 'emitted'; readonly isRead: boolean }
  /** The oldest request of this kind without a response failed. */
  | {
      readonly kind: 'rejected';
      readonly request: 'pointOfNoReturn' | 'emit' | 'cancelRun';
      readonly error: Rejection;
    };

/** Why a request of the thread failed. */
export type Rejection =
  | { readonly kind: 'canceled'; readonly reason: string; readonly trigger: CancelTrigger }
  /** `code` is set for an error of Perdure. */
  | { readonly kind: 'failed'; readonly message: string; readonly code?: ErrorCode };

/** Messages from the thread to the worker. */
export type FromThread =
  /** The module is loaded, and the handler can be called. */
  | { readonly kind: 'loaded' }
  | { readonly kind: 'completed'; readonly payload: Payload | null }
  | {
      readonly kind: 'failed';
      readonly failure: Failure;
      /** Class names of the thrown error. */
      readonly classes: readonly string[];
      /** The handler threw the reason of its own aborted signal. */
      readonly stopped: boolean;
      /** Set for an error of Perdure. */
      readonly code?: ErrorCode;
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
