import type { StateValue } from '../../model/values/state.ts';
import type { StateChange } from '../contract/turn.ts';

/** Returns the changes that turn one state into another. */
export function stateChanges(
  before: readonly StateValue[],
  after: readonly StateValue[],
): readonly StateChange[] {
  const stored = new Map(before.map(({ key, payload }) => [key, payload]));
  const kept = new Set(after.map(({ key }) => key));
  return [
    ...before.filter(({ key }) => !kept.has(key)).map(({ key }) => ({ key, payload: null })),
    ...after.filter(({ key, payload }) => stored.get(key) !== payload),
  ];
}
