import { signal } from '@preact/signals';
import type { Conditions } from '../pages/instances/filter.ts';

/** What an operator can do with instances. */
export type ActionKind =
  | 'cancel'
  | 'terminate'
  | 'retry'
  | 'fork'
  | 'pause'
  | 'resume'
  | 'raiseEvent'
  | 'runAgain'
  | 'delete'
  | 'prune';

/** One instance, chosen instances, or all that match a filter. */
export type ActionTarget =
  | {
      readonly kind: 'instance';
      readonly id: string;
      readonly name: string;
      readonly status: string;
    }
  | { readonly kind: 'ids'; readonly ids: readonly string[] }
  | { readonly kind: 'filter'; readonly conditions: Conditions; readonly query: string };

/** An action that waits for the operator's decision in a dialog. */
export interface PendingAction {
  readonly action: ActionKind;
  readonly target: ActionTarget;
  /** Called after the server has accepted the action. */
  readonly onDone?: () => void;
}

export const pendingAction = signal<PendingAction | undefined>(undefined);

/** Opens the dialog of an action. */
export function ask(action: ActionKind, target: ActionTarget, onDone?: () => void): void {
  pendingAction.value = { action, target, ...(onDone !== undefined && { onDone }) };
}
