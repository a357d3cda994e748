import type { Tone } from '../../../words/status.ts';
import type { Why } from '../instance-data.ts';

export type Wait = Why['waits'][number];
/** Work of an instance: an activity, a task or its failure handler. */
export type WorkWait = Extract<Wait, { state: string }>;

// What an operator can act on comes first.
const order: readonly Wait['kind'][] = [
  'ended',
  'blocked',
  'paused',
  'cancel',
  'worker',
  'debounced',
  'place',
  'activity',
  'task',
  'onFail',
  'turn',
  'delay',
  'start',
  'child',
  'event',
  'awakeable',
  'update',
  'job',
  'timer',
  'detached',
];

/** The wait that tells most about the state of an instance. */
export function mostTelling(waits: readonly Wait[]): Wait | undefined {
  return [...waits].sort((a, b) => rank(a) - rank(b))[0];
}

function rank(wait: Wait): number {
  const place = order.indexOf(wait.kind);
  // Work that is retried, or that no worker can run, tells more than work that runs.
  const isTrouble =
    ('state' in wait && wait.state === 'retrying') ||
    ('unclaimed' in wait && wait.unclaimed === 'noWorker');
  return isTrouble ? place - 0.5 : place;
}

/** The tone of a wait. */
export function toneOfWait(wait: Wait): Tone {
  switch (wait.kind) {
    case 'ended':
      return wait.status;
    case 'blocked':
      return 'blocked';
    case 'paused':
      return 'paused';
    case 'cancel':
      return 'canceling';
    case 'worker':
      return wait.reason === 'noWorker' ? 'failed' : 'pending';
    case 'activity':
    case 'task':
    case 'onFail':
      if (wait.unclaimed === 'noWorker') return 'failed';
      return wait.state === 'queued' ? 'queued' : wait.state;
    case 'update':
      return wait.deferred === true ? 'pending' : 'running';
    case 'turn':
      return 'running';
    case 'start':
      return wait.unclaimed === 'noWorker' ? 'failed' : 'pending';
    case 'delay':
    case 'debounced':
    case 'place':
    case 'timer':
    case 'event':
    case 'child':
    case 'detached':
    case 'awakeable':
    case 'job':
      return 'pending';
    default:
      return 'neutral';
  }
}
