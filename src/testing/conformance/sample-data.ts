import type { StoredEvent } from '../../model/event.ts';
import { encodeMessage, type StoredMessage } from '../../model/message.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type { NewInstance } from '../../providers/contract/instances.ts';
import type { FetchedMessage } from '../../providers/contract/orchestration-queue.ts';
import type { NewProcess } from '../../providers/contract/processes.ts';
import type { ActivityCancel, NewChild, NewWorkItem, Turn } from '../../providers/contract/turn.ts';

/** The name that orchestrations of the suite have unless a case says otherwise. */
const orchestrationName = 'sample';

/** The version on which their turns run. */
export const version = '1';

/** How long the clean-up of what is asked to stop may take unless a case says otherwise. */
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

/** A process of a host, with a lease as long as the longest of the suite. */
export function newProcess(hostId: string, parts: Partial<NewProcess> = {}): NewProcess {
  return { hostId, pid: 1, startTime: '100', leaseMs: 60_000, ...parts };
}

/** An external event whose payload is its label. */
export function raised(label: string): StoredMessage {
  return encodeMessage({ kind: 'eventRaised', name: 'sample', payload: JSON.stringify(label) });
}

/** A history event whose payload is its label; what it says is nothing to a store. */
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

/** A turn's wish that an activity stop. */
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
  const answered = { executionId: 1, operation };
  const failure = { name: 'Taken', message: instanceId };
  return detached(instanceId, {
    ifStarted: encodeMessage({ kind: 'detachedConfirmed', ...answered }),
    ifTaken: encodeMessage({ kind: 'detachedFailed', ...answered, failure }),
    ...parts,
  });
}

/** An instance that a turn starts and does not wait for. */
export function detached(instanceId: string, parts: Partial<NewChild> = {}): NewChild {
  return child(instanceId, 0, {
    parentOperation: null,
    cancellation: 'abandon',
    ifTaken: null,
    ...parts,
  });
}

/** A turn that does nothing but what its parts say. */
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

/** What a message says, in short: an event by its label, a completion as `kind operation`. */
export function label(message: FetchedMessage): string {
  if (message.kind === 'eventRaised') return String(JSON.parse(message.payload ?? 'null'));
  return message.operation === null ? message.kind : `${message.kind} ${message.operation}`;
}
