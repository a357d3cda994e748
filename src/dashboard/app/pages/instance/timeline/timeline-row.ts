import type { Tone } from '../../../words/status.ts';
import type { PendingWork } from '../instance-data.ts';
import type { Item } from './timeline-data.ts';

/** A row: an operation of the instance, or of a child that was opened. */
export interface TimelineRow {
  readonly key: string;
  readonly depth: number;
  readonly instanceId: string;
  readonly item: Item;
  readonly pending?: PendingWork;
}

/** The state of an operation. */
export function toneOfRow({ item, pending }: TimelineRow): Tone {
  if (item.outcome !== undefined) return item.outcome;
  if (item.withdrawnAt !== undefined) return 'canceled';
  if (pending !== undefined) return pending.state;
  if (item.endedAt !== undefined) return 'completed';
  return item.kind === 'activity' ? 'queued' : 'running';
}

const kindNames: Readonly<Record<Item['kind'], string>> = {
  activity: 'activity',
  step: 'step',
  timer: 'timer',
  event: 'event',
  child: 'child',
  detached: 'detached',
  awakeable: 'awakeable',
  status: 'status',
  state: 'state',
};

/** The name of an operation, or of its kind. */
export function nameOf({ name, kind, childId }: Item): string {
  return name ?? childId ?? kindNames[kind];
}
