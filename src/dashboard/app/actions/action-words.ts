import type { ActionKind } from '../state/actions.ts';
import { formatNumber, plural } from '../words/format.ts';
import type { StoredStatus } from '../words/status.ts';

interface ActionWords {
  /** `Cancel` */
  readonly verb: string;
  /** What it does to one instance. */
  readonly effect: string;
  /** What it does to instances of a status; absent: they stay as they are. */
  readonly byStatus: Partial<Record<StoredStatus, string>>;
  /** What changed, for the message: `Canceled`. */
  readonly done: string;
  /** The word of the safe choice. */
  readonly keep: string;
  readonly isDangerous: boolean;
}

const stopping = 'are already canceling';
const ended = 'have ended';

export const actionWords: Readonly<Record<ActionKind, ActionWords>> = {
  cancel: {
    verb: 'Cancel',
    effect:
      'Its code is signaled to stop and may clean up. The request is durable: it survives crashes.',
    byStatus: {
      pending: 'have not started: canceled immediately',
      running: 'are signaled to stop, and clean up',
    },
    done: 'Cancel requested',
    keep: 'Keep running',
    isDangerous: true,
  },
  terminate: {
    verb: 'Terminate',
    effect: 'It ends immediately. No clean-up code runs.',
    byStatus: {
      pending: 'end immediately',
      running: 'end immediately, without clean-up',
      canceling: 'end immediately, in the middle of their clean-up',
    },
    done: 'Terminated',
    keep: 'Keep running',
    isDangerous: true,
  },
  retry: {
    verb: 'Retry',
    effect:
      'It runs again under the same id, as its next execution. The failed one stays readable.',
    byStatus: {
      failed: 'run again',
      canceled: 'run again',
      terminated: 'run again',
      expired: 'run again',
    },
    done: 'Retried',
    keep: 'Leave as it is',
    isDangerous: false,
  },
  fork: {
    verb: 'Fork',
    effect: 'A new instance starts with a copy of the first events. This one does not change.',
    byStatus: {},
    done: 'Forked',
    keep: 'Leave as it is',
    isDangerous: false,
  },
  pause: {
    verb: 'Pause',
    effect:
      'No turn, activity or attempt starts until it is resumed. What runs ends and is recorded.',
    byStatus: {
      pending: 'do not start',
      running: 'start nothing new',
      canceling: 'stop cleaning up',
    },
    done: 'Paused',
    keep: 'Keep running',
    isDangerous: false,
  },
  resume: {
    verb: 'Resume',
    effect: 'It continues. Timers that fell due meanwhile fire now.',
    byStatus: { pending: 'may start', running: 'continue', canceling: 'continue their clean-up' },
    done: 'Resumed',
    keep: 'Keep paused',
    isDangerous: false,
  },
  raiseEvent: {
    verb: 'Send event',
    effect: 'The event is stored and waits until the code asks for it.',
    byStatus: {
      pending: 'receive the event',
      running: 'receive the event',
      canceling: 'receive the event',
    },
    done: 'Event sent',
    keep: 'Do not send',
    isDangerous: false,
  },
  runAgain: {
    verb: 'Start',
    effect: 'A new instance starts.',
    byStatus: {},
    done: 'Started',
    keep: 'Do not start',
    isDangerous: false,
  },
  delete: {
    verb: 'Delete',
    effect: 'Deletes the instance, its descendants and their histories. This cannot be undone.',
    byStatus: {
      completed: 'are deleted',
      failed: 'are deleted',
      canceled: 'are deleted',
      terminated: 'are deleted',
      skipped: 'are deleted',
      expired: 'are deleted',
    },
    done: 'Deleted',
    keep: 'Keep it',
    isDangerous: true,
  },
  prune: {
    verb: 'Prune',
    effect: 'Deletes the histories of its finished executions. The current execution stays.',
    byStatus: {},
    done: 'Pruned',
    keep: 'Keep them',
    isDangerous: true,
  },
};

/** Why instances of a status stay as they are. */
export function whyUnchanged(action: ActionKind, status: StoredStatus): string {
  if (action === 'cancel' && status === 'canceling') return `${stopping}, and stay as they are`;
  if (action === 'retry' && ['pending', 'running', 'canceling'].includes(status)) {
    return 'have not ended, and stay as they are';
  }
  if (action === 'delete' && ['pending', 'running', 'canceling'].includes(status)) {
    return 'have not ended, and are not deleted';
  }
  return `${ended}, and stay as they are`;
}

/** `Cancel 1,284 instances`, `Cancel order-48184` */
export function actionTitle(action: ActionKind, count: number | undefined, id?: string): string {
  const { verb } = actionWords[action];
  if (id !== undefined) return action === 'raiseEvent' ? `Send an event to ${id}` : `${verb} ${id}`;
  const what = count === undefined ? 'instances' : plural(count, 'instance');
  return action === 'raiseEvent' ? `Send an event to ${what}` : `${verb} ${what}`;
}

/** The text of the button that does it: `Cancel 1,284`. */
export function actionButton(action: ActionKind, count: number | undefined): string {
  const { verb } = actionWords[action];
  return count === undefined ? verb : `${verb} ${formatNumber(count)}`;
}
