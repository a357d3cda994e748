/** The entry of an isolated handler's thread: loads the handler, runs it once, and posts its outcome. */
import { parentPort, workerData } from 'node:worker_threads';
import { errorClasses, toFailure } from '../../model/failures/failure.ts';
import { CanceledError, PerdureError } from '../../model/failures/errors.ts';
import type { Logger } from '../../model/logger.ts';
import { decodePayload, encodePayload } from '../../model/values/payload.ts';
import type { ActivityClient, ActivityContext } from '../../orchestration/activity-context.ts';
import { isCancellation } from './running-context.ts';
import type { FromHost, FromThread, Rejection, ThreadCall } from './isolated-handler.ts';

const call = workerData as ThreadCall;
const controller = new AbortController();
const begun = Promise.withResolvers<void>();

interface Waiting<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

/** Requests without a response, by kind. The worker responds in the order of the requests of a kind. */
const waiting = {
  pointOfNoReturn: [] as Waiting<void>[],
  cancelRun: [] as Waiting<void>[],
  emit: [] as Waiting<boolean>[],
};

function send(message: FromThread): void {
  parentPort?.postMessage(message, []);
}

const log: Logger = {
  debug: (fields, message) => send({ kind: 'log', level: 'debug', fields: plain(fields), message }),
  info: (fields, message) => send({ kind: 'log', level: 'info', fields: plain(fields), message }),
  warn: (fields, message) => send({ kind: 'log', level: 'warn', fields: plain(fields), message }),
  error: (fields, message) => send({ kind: 'log', level: 'error', fields: plain(fields), message }),
};

const context: ActivityContext = {
  instanceId: call.instanceId,
  executionId: call.executionId,
  orchestrationName: call.orchestrationName,
  activityName: call.activityName,
  headers: call.headers,
  session: call.session,
  attempt: call.attempt,
  idempotencyKey: call.idempotencyKey,
  lastHeartbeat: decodePayload(call.lastHeartbeat),
  signal: controller.signal,
  get isCanceled() {
    return controller.signal.aborted;
  },
  throwIfCanceled: () => controller.signal.throwIfAborted(),
  canceled: () =>
    new Promise((resolve) => {
      const settle = (): void => resolve(controller.signal.reason as CanceledError);
      if (controller.signal.aborted) settle();
      else controller.signal.addEventListener('abort', settle, { once: true });
    }),
  heartbeat: (details) => {
    const payload = encodePayload(details, 'A heartbeat', call.payloadLimitBytes);
    send({ kind: 'heartbeat', payload });
  },
  pointOfNoReturn: () =>
    new Promise((resolve, reject) => {
      waiting.pointOfNoReturn.push({ resolve, reject });
      send({ kind: 'pointOfNoReturn' });
    }),
  emit: (chunk) => {
    const emitted = new Promise<boolean>((resolve, reject) => {
      const payload = encodePayload(chunk, 'A chunk', call.payloadLimitBytes);
      waiting.emit.push({ resolve, reject });
      send({ kind: 'emit', payload });
    });
    // A handler that does not await its emits is canceled through its signal.
    emitted.catch(() => undefined);
    return emitted;
  },
  transaction: () =>
    Promise.reject(
      new PerdureError(
        'TRANSACTION_UNSUPPORTED',
        '`ctx.transaction` is not available in an isolated handler: its thread has no connection of the worker. Use a handler that is not isolated.',
      ),
    ),
  get client(): ActivityClient {
    throw new PerdureError(
      'INVALID_INPUT',
      '`ctx.client` is not available in an isolated handler. Open the store in its module, or start instances from an activity that is not isolated.',
    );
  },
  log,
};

if (call.isTask) {
  Object.assign(context, {
    runId: call.instanceId,
    taskName: call.activityName,
    headers: call.headers,
    cancel: (reason?: string) =>
      new Promise<void>((resolve, reject) => {
        waiting.cancelRun.push({ resolve, reject });
        send({ kind: 'cancelRun', reason });
      }),
  });
}

parentPort?.on('message', (message: FromHost) => {
  if (message.kind === 'begin') begun.resolve();
  else if (message.kind === 'abort')
    controller.abort(new CanceledError(message.reason, message.trigger));
  else if (message.kind === 'passed') waiting.pointOfNoReturn.shift()?.resolve();
  else if (message.kind === 'cancelRequested') waiting.cancelRun.shift()?.resolve();
  else if (message.kind === 'emitted') waiting.emit.shift()?.resolve(message.isRead);
  else waiting[message.request].shift()?.reject(toRejectedError(message.error));
});

try {
  const loaded = (await import(call.module)) as Record<string, unknown>;
  const handler = loaded[call.exportName];
  if (typeof handler !== 'function') {
    throw new PerdureError(
      'INVALID_OPTION',
      `Module ${JSON.stringify(call.module)} does not export a function ${JSON.stringify(call.exportName)}. Export the handler of ${JSON.stringify(call.activityName)} under that name.`,
    );
  }
  send({ kind: 'loaded' });
  await begun.promise;
  // A cancel may follow the `begin` message. The flag is set before the `abort` message arrives.
  if (Atomics.load(new Int32Array(call.aborted), 0) !== 0) {
    await context.canceled();
    context.throwIfCanceled();
  }
  const output: unknown = await (handler as (context: ActivityContext, input: unknown) => unknown)(
    context,
    decodePayload(call.payload),
  );
  const what = `The result of ${JSON.stringify(call.activityName)}`;
  send({ kind: 'completed', payload: encodePayload(output, what, call.payloadLimitBytes) });
} catch (error) {
  const { signal } = controller;
  const stopped = signal.aborted && isCancellation(error, signal.reason as CanceledError);
  send({
    kind: 'failed',
    failure: toFailure(error),
    classes: errorClasses(error),
    stopped,
    ...(PerdureError.is(error) && { code: error.code }),
  });
}

/** Rebuilds the error of a rejected request in the thread. */
function toRejectedError(error: Rejection): Error {
  if (error.kind === 'canceled') return new CanceledError(error.reason, error.trigger);
  if (error.code === undefined) return new Error(error.message);
  return new PerdureError(error.code, error.message);
}

function plain(fields: object): object {
  return JSON.parse(JSON.stringify(fields)) as object;
}
