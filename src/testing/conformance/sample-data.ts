import type { StoredEvent } from '../../model/event.ts';
import { encodeMessage, type StoredMessage } from '../../model/message.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type { NewInstance } from '../../providers/contract/instances.ts';
import type { FetchedMessage } from '../../providers/contract/orchestration-queue.ts';
import type { NewWorker } from '../../providers/contract/workers.ts';
import type { NewProcess } from '../../providers/contract/processes.ts';
import type { ActivityCancel, NewChild, NewWorkItem, Turn } from '../../providers/contract/turn.ts';

/** The default orchestration name. */
const orchestrationName = 'sample';

/** The version of turns. */
export const version = '1';

/** The default clean-up limit. */
export const cleanupMs = 60_000;

export function startMessage(name = orchestrationName): StoredMessage {
  return encodeMessage({ kind: 'start', name, version: null, payload: '"input"' });
}

export function newInstance(instanceId: string, parts: Partial<NewInstance> = {}): NewInstance {
  return {
    instanceId,
    incarnation: randomToken(),
    name: orchestrationName,
    version: null,
    inputHash: 'hash',
    start: startMessage(parts.name),
    ...parts,
  };
}

/** A worker without definitions. Its name is its id. */
export function newWorker(workerId: string, parts: Partial<NewWorker> = {}): NewWorker {
  return {
    workerId,
    name: workerId,
    host: 'host',
    pid: 1,
    buildId: 'build',
    orchestrations: [],
    activities: [],
    tasks: [],
    slots: { activities: 100, orchestrations: 256, inUse: 0 },
    leaked: 0,
    heartbeatMs: 10_000,
    attemptLimits: [],
    runningMs: 0,
    ...parts,
  };
}

/** A process of a host, with the longest lease of the suite. */
export function newProcess(hostId: string, parts: Partial<NewProcess> = {}): NewProcess {
  return { hostId, pid: 1, startTime: '100', leaseMs: 60_000, ...parts };
}

/** An external event whose payload is its label. */
export function raised(label: string): StoredMessage {
  return encodeMessage({ kind: 'eventRaised', name: 'sample', payload: JSON.stringify(label) });
}

/** A history event whose payload is its label. A store does not interpret it. */
export function event(label: string): StoredEvent {
  const payload = JSON.stringify(label);
  return { kind: 'eventReceived', at: 1, data: '{"name":"sample"}', payload };
}

export function workItem(operation: number, parts: Partial<NewWorkItem> = {}): NewWorkItem {
  return {
    operation,
    name: 'activity',
    payload: `"input ${operation}"`,
    options: null,
    cancellation: 'request',
    shielded: false,
    ...parts,
  };
}

/** A turn's request to cancel an activity. */
export function activityCancel(operation: number, reason = `no ${operation}`): ActivityCancel {
  return { operation, reason, trigger: 'cancel' };
}

/** A child that its parent waits for at `operation`. */
export function child(
  instanceId: string,
  operation: number,
  parts: Partial<NewChild> = {},
): NewChild {
  return {
    instanceId,
    incarnation: randomToken(),
    name: orchestrationName,
    version: null,
    inputHash: 'hash',
    start: startMessage(),
    parentOperation: operation,
    cancellation: 'request',
    ifTaken: encodeMessage({
      kind: 'childFailed',
      executionId: 1,
      operation,
      failure: { name: 'Taken', message: instanceId },
    }),
    ...parts,
  };
}

/** A detached instance whose start the starting instance waits for at `operation`. */
export function awaitedDetached(
  instanceId: string,
  operation: number,
  parts: Partial<NewChild> = {},
): NewChild {
  const target = { executionId: 1, operation };
  const failure = { name: 'Taken', message: instanceId };
  return detached(instanceId, {
    ifStarted: encodeMessage({ kind: 'detachedConfirmed', ...target }),
    ifTaken: encodeMessage({ kind: 'detachedFailed', ...target, failure }),
    ...parts,
  });
}

/** A detached instance without a wait for its start. */
export function detached(instanceId: string, parts: Partial<NewChild> = {}): NewChild {
  return child(instanceId, 0, {
    parentOperation: null,
    cancellation: 'abandon',
    ifTaken: null,
    ...parts,
  });
}

/** A turn without effects, except those in `parts`. */
export function newTurn(parts: Partial<Turn> = {}): Turn {
  return {
    turnId: randomToken(),
    version,
    firstEventId: 1,
    events: [],
    workItems: [],
    timers: [],
    children: [],
    messages: [],
    activityCancels: [],
    childCancels: [],
    cleanupMs,
    timerWithdrawals: [],
    outcome: { status: 'running' },
    ...parts,
  };
}

/** Returns the label of an event, and `kind operation` for a completion. */
export function label(message: FetchedMessage): string {
  if (message.kind === 'eventRaised') return String(JSON.parse(message.payload ?? 'null'));
  return message.operation === null ? message.kind : `${message.kind} ${message.operation}`;
}
