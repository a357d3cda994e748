import type { ResponseBody } from '../api/operations.ts';
import { formatDateTime } from './format.ts';

export type HistoryEvent = ResponseBody<'getHistory'>['items'][number]['event'];

/** What an event is about, in a few words. */
export function describeEvent(event: HistoryEvent): string {
  switch (event.kind) {
    case 'executionStarted':
      return `${event.name} v${event.version}`;
    case 'activityScheduled':
    case 'eventAwaited':
      return `#${event.operation} ${event.name}`;
    case 'childScheduled':
    case 'detachedStarted':
      return `#${event.operation} ${event.name} as ${event.childId}`;
    case 'timerCreated':
      return `#${event.operation} until ${formatDateTime(event.fireAt)}`;
    case 'customStatusSet':
      return `#${event.operation} custom status`;
    case 'chunkEmitted':
      return `#${event.operation} chunk`;
    case 'stateSet':
      return `#${event.operation} ${event.key}`;
    case 'tagsSet':
      return `#${event.operation} tags`;
    case 'awakeableCreated':
      return `#${event.operation} awakeable`;
    case 'updateAccepted':
      return `${event.name}, key ${event.key}`;
    case 'updateCompleted':
      return `key ${event.key}`;
    case 'updateFailed':
      return `key ${event.key}, ${event.failure.name}: ${event.failure.message}`;
    case 'timerFired':
    case 'childCompleted':
    case 'detachedConfirmed':
    case 'awakeableResolved':
      return `#${event.operation}`;
    case 'activityCompleted':
      return `#${event.operation}${event.worker === undefined ? '' : ` on ${event.worker}`}`;
    case 'stepCompleted':
      return `#${event.operation} ${event.name}${event.worker === undefined ? '' : ` on ${event.worker}`}`;
    case 'stepFailed':
    case 'stepRetried':
      return `#${event.operation} ${event.name}: ${event.failure.name}: ${event.failure.message}`;
    case 'patchMarked':
      return event.id;
    case 'activityFailed':
      return `#${event.operation} ${event.failure.name}: ${event.failure.message}${event.worker === undefined ? '' : `, on ${event.worker}`}`;
    case 'childFailed':
    case 'detachedFailed':
    case 'awakeableRejected':
      return `#${event.operation} ${event.failure.name}: ${event.failure.message}`;
    case 'activityCanceled':
    case 'childCanceled':
      return `#${event.operation} ${event.reason}`;
    case 'operationWithdrawn':
      return `#${event.target} ${event.targetKind}, ${event.reason}`;
    case 'eventReceived':
      return event.name;
    case 'cancelRequested':
      return event.actor === null ? event.reason : `${event.actor}: ${event.reason}`;
    case 'executionFailed':
      return `${event.failure.name}: ${event.failure.message}`;
    case 'executionCanceled':
      return event.cleanupSkipped === true
        ? `${event.reason}, clean-up not finished`
        : event.reason;
    case 'executionTerminated':
      return event.actor === null ? event.reason : `${event.actor}: ${event.reason}`;
    case 'executionContinuedAsNew':
      return `v${event.version}`;
    case 'executionCompleted':
      return '';
    default:
      return '';
  }
}

/** The operation that an event belongs to. */
export function operationOf(event: HistoryEvent): number | undefined {
  if ('operation' in event) return event.operation;
  return event.kind === 'operationWithdrawn' ? event.target : undefined;
}

/** The kind of a command in one word. */
export function commandKind(kind: string): string {
  return commandKinds[kind] ?? kind;
}

const commandKinds: Readonly<Record<string, string>> = {
  activityScheduled: 'call',
  timerCreated: 'timer',
  eventAwaited: 'wait',
  childScheduled: 'child',
  detachedStarted: 'start',
  customStatusSet: 'status',
  chunkEmitted: 'emit',
  stateSet: 'state',
  tagsSet: 'tags',
  stepCompleted: 'run',
  patchMarked: 'patch',
  awakeableCreated: 'awakeable',
  updateCompleted: 'reply',
  updateFailed: 'reply',
  operationWithdrawn: 'withdraw',
};

/** What a command is about: the name that the code gave, or the time of a timer. */
export function commandName(event: HistoryEvent): string {
  if ('name' in event && event.name !== undefined) return event.name;
  if (event.kind === 'patchMarked') return event.id;
  if (event.kind === 'timerCreated') return formatDateTime(event.fireAt);
  if (event.kind === 'customStatusSet') return 'setCustomStatus';
  if (event.kind === 'chunkEmitted') return 'emit';
  if (event.kind === 'stateSet') return event.key;
  if (event.kind === 'tagsSet') return 'setTags';
  if (event.kind === 'awakeableCreated') return 'awakeable';
  if ('key' in event) return event.key;
  return event.kind === 'operationWithdrawn' ? `#${event.target}` : event.kind;
}
