import { readMessages } from '../../../remote/event-source.ts';
import type { Operation, Request, ResponseBody } from './operations.ts';
import { ApiError } from './api-error.ts';
import { send } from './call.ts';
import { markUnreachable } from './connection.ts';
import { forgetSession } from './session.ts';

// The server sends a heartbeat every 15 s.
const idleMs = 40_000;
const longestPauseMs = 15_000;
const limitBytes = 16 * 1024 * 1024;

/** A stream that is opened again after it was lost. */
export interface StreamEvents<Message> {
  readonly message: (message: Message) => void;
  /** The stream is open again after a loss: what happened in between is unknown, so read again. */
  readonly reopened?: () => void;
  /** The server refused the stream for good. */
  readonly refused?: (error: ApiError) => void;
}

/** Follows a stream of the server until `signal` aborts. Retries with back-off. */
export async function follow<Name extends Operation>(
  name: Name,
  request: () => Request<Name>,
  events: StreamEvents<ResponseBody<Name>>,
  signal: AbortSignal,
): Promise<void> {
  let wasLost = false;
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    try {
      const response = await send(name, request() as object, 'text/event-stream', signal);
      if (wasLost) events.reopened?.();
      wasLost = false;
      if (response.body === null) return;
      for await (const { event, data } of readMessages(response.body, { limitBytes, idleMs })) {
        attempt = 0;
        if (event === 'error') throw endOf(data);
        events.message(JSON.parse(data) as ResponseBody<Name>);
        if (signal.aborted) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && isFinal(error)) {
        events.refused?.(error);
        return;
      }
      if (!(error instanceof ApiError)) markUnreachable();
    }
    wasLost = true;
    await pause(Math.min(longestPauseMs, 500 * 2 ** attempt) * (0.75 + Math.random() / 2), signal);
  }
}

/** The error that ends a stream: the session is over, the server closes, or the instance was deleted. */
function endOf(data: string): ApiError {
  const { error, requestId } = JSON.parse(data) as {
    error: { code: string; message: string };
    requestId?: string;
  };
  const isSignedOut = error.code === 'UNAUTHENTICATED' || error.code === 'UNAUTHORIZED';
  if (isSignedOut) forgetSession();
  const status = isSignedOut ? 401 : error.code === 'INSTANCE_NOT_FOUND' ? 404 : 503;
  return new ApiError(status, error.code, error.message, requestId);
}

function isFinal({ status }: ApiError): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
