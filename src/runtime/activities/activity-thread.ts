/** The entry of an isolated handler's thread: loads the handler, runs it once, and posts its outcome. */
import { parentPort, workerData } from 'node:worker_threads';
import { errorClasses, toFailure } from '../../model/failures/failure.ts';
import { CanceledError, PerdureError } from '../../model/failures/errors.ts';
import type { Logger } from '../../model/logger.ts';
import { decodePayload, encodePayload } from '../../model/values/payload.ts';
import type { ActivityClient, ActivityContext } from '../../orchestration/activity-context.ts';
import { isCancellation } from './running-context.ts';
import type { FromHost, FromThread, ThreadTask } from './isolated-handler.ts';

const task = workerData as ThreadTask;
const controller = new AbortController();
type Waiting = { readonly resolve: () => void; readonly reject: (reason: unknown) => void };
const begun = Promise.withResolvers<void>();
const waitingForReturn: Waiting[] = [];
const waitingForCancel: Waiting[] = [];
const waitingForEmit: {
  readonly resolve: (isRead: boolean) => void;
  readonly reject: (reason: unknown) => void;
}[] = [];

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
  instanceId: task.instanceId,
  executionId: task.executionId,
  orchestrationName: task.orchestrationName,
  activityName: task.activityName,
  attempt: task.attempt,
  idempotencyKey: task.idempotencyKey,
  lastHeartbeat: decodePayload(task.lastHeartbeat),
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
    const payload = encodePayload(details, 'A heartbeat', task.payloadLimitBytes);
    send({ kind: 'heartbeat', payload });
  },
  pointOfNoReturn: () =>
    new Promise((resolve, reject) => {
      waitingForReturn.push({ resolve, reject });
      send({ kind: 'pointOfNoReturn' });
    }),
  emit: (chunk) => {
    const emitted = new Promise<boolean>((resolve, reject) => {
      const payload = encodePayload(chunk, 'A chunk', task.payloadLimitBytes);
      waitingForEmit.push({ resolve, reject });
      send({ kind: 'emit', payload });
    });
    // A handler that does not await its emits is canceled through its signal.
    emitted.catch(() => undefined);
    return emitted;
  },
  get client(): ActivityClient {
    throw new PerdureError(
      'INVALID_INPUT',
      '`ctx.client` is not available in an isolated handler. Open the store in its module, or start instances from an activity that is not isolated.',
    );
  },
  log,
};

if (task.headers !== undefined) {
  Object.assign(context, {
    runId: task.instanceId,
    taskName: task.activityName,
    headers: task.headers,
    cancel: (reason?: string) =>
      new Promise<void>((resolve, reject) => {
        waitingForCancel.push({ resolve, reject });
        send({ kind: 'cancelRun', reason });
      }),
  });
}

parentPort?.on('message', (message: FromHost) => {
  if (message.kind === 'begin') begun.resolve();
  else if (message.kind === 'abort')
    controller.abort(new CanceledError(message.reason, message.trigger));
  else if (message.kind === 'cancelReplied') {
    const waiting = waitingForCancel.shift();
    if (message.problem === undefined) waiting?.resolve();
    else waiting?.reject(new Error(message.problem));
  } else if (message.kind === 'emitted') waitingForEmit.shift()?.resolve(message.isRead);
  else if (message.kind === 'emitFailed')
    waitingForEmit.shift()?.reject(new Error(message.message));
  else if (message.kind === 'emitRejected')
    waitingForEmit.shift()?.reject(new CanceledError(message.reason, message.trigger));
  else {
    const waiting = waitingForReturn.shift();
    if (message.kind === 'passed') waiting?.resolve();
    else if (message.kind === 'invalid')
      waiting?.reject(new PerdureError('INVALID_INPUT', message.message));
    else waiting?.reject(new CanceledError(message.reason, message.trigger));
  }
});

try {
  const loaded = (await import(task.module)) as Record<string, unknown>;
  const handler = loaded[task.exportName];
  if (typeof handler !== 'function') {
    throw new PerdureError(
      'INVALID_OPTION',
      `Module ${JSON.stringify(task.module)} does not export a function ${JSON.stringify(task.exportName)}. Export the handler of ${JSON.stringify(task.activityName)} under that name.`,
    );
  }
  send({ kind: 'loaded' });
  await begun.promise;
  // A cancel may follow the `begin` message. The flag is set before the `abort` message arrives.
  if (Atomics.load(new Int32Array(task.aborted), 0) !== 0) {
    await context.canceled();
    context.throwIfCanceled();
  }
  const output: unknown = await (handler as (context: ActivityContext, input: unknown) => unknown)(
    context,
    decodePayload(task.payload),
  );
  const what = `The result of ${JSON.stringify(task.activityName)}`;
  send({ kind: 'completed', payload: encodePayload(output, what, task.payloadLimitBytes) });
} catch (error) {
  const { signal } = controller;
  const stopped = signal.aborted && isCancellation(error, signal.reason as CanceledError);
  send({
    kind: 'failed',
    failure: toFailure(error),
    classes: errorClasses(error),
    stopped,
    isPerdureError: PerdureError.is(error),
  });
}

function plain(fields: object): object {
  return JSON.parse(JSON.stringify(fields)) as object;
}
