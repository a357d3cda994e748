import { timeOrderedId } from './values/random-id.ts';

// Applications cannot use it: their keys are never purged.
const prefix = '~';

// Longer than any client repeats a request.
const keptMs = 86_400_000;

/** Generates a key for an event without one, so that a repeated request is one event. */
export function generateEventKey(nowMs: number): string {
  return prefix + timeOrderedId(nowMs);
}

/** Whether a client generated the key. */
export function isGeneratedKey(key: string): boolean {
  return key.startsWith(prefix);
}

/** The range of generated keys that are too old to be repeated, as texts in code unit order. */
export function staleKeys(nowMs: number): { readonly from: string; readonly before: string } {
  return { from: prefix, before: prefix + timeOrderedId(Math.max(0, nowMs - keptMs)) };
}
