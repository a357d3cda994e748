import type { IconName } from '../components/icon.tsx';

/** A state that has a colour, a silhouette and a word. */
export type Tone =
  | 'pending'
  | 'queued'
  | 'running'
  | 'canceling'
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'terminated'
  | 'blocked'
  | 'paused'
  | 'retrying'
  | 'skipped'
  | 'expired'
  | 'neutral';

interface StatusWords {
  readonly word: string;
  readonly icon: IconName;
}

export const statusWords: Readonly<Record<Tone, StatusWords>> = {
  pending: { word: 'Pending', icon: 'pending' },
  queued: { word: 'Queued', icon: 'queued' },
  running: { word: 'Running', icon: 'running' },
  canceling: { word: 'Canceling', icon: 'canceling' },
  completed: { word: 'Completed', icon: 'completed' },
  failed: { word: 'Failed', icon: 'failed' },
  canceled: { word: 'Canceled', icon: 'canceled' },
  terminated: { word: 'Terminated', icon: 'terminated' },
  blocked: { word: 'Blocked', icon: 'blocked' },
  paused: { word: 'Paused', icon: 'paused' },
  retrying: { word: 'Retrying', icon: 'retrying' },
  skipped: { word: 'Skipped', icon: 'skipped' },
  expired: { word: 'Expired', icon: 'clock' },
  neutral: { word: '', icon: 'queued' },
};

/** The statuses that the server stores. Blocked and paused are conditions beside them. */
export type StoredStatus =
  | 'pending'
  | 'running'
  | 'canceling'
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'terminated'
  | 'skipped'
  | 'expired';

export const storedStatuses: readonly StoredStatus[] = [
  'pending',
  'running',
  'canceling',
  'completed',
  'failed',
  'canceled',
  'terminated',
  'skipped',
  'expired',
];

/** Whether an instance of this status can still change. */
export function isActive(status: string): boolean {
  return status === 'pending' || status === 'running' || status === 'canceling';
}

/** The tone to show for an instance: what holds it back comes before its status. */
export function toneOf(instance: {
  readonly status: string;
  readonly blocked?: unknown;
  readonly paused?: unknown;
}): Tone {
  if (isActive(instance.status)) {
    if (instance.blocked !== undefined) return 'blocked';
    if (instance.paused !== undefined) return 'paused';
  }
  return instance.status in statusWords ? (instance.status as Tone) : 'neutral';
}
