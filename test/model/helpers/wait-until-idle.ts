import type { StoreBoundary } from './store-boundary.ts';

// Between two store calls, a worker takes at most two turns of the event loop.
const quietRounds = 4;

/** Resolves when the processes are idle: only time or a command can cause the next step. */
export async function waitUntilIdle(
  boundary: StoreBoundary,
  {
    otherMoves = () => 0,
    isBusy = () => false,
  }: { readonly otherMoves?: () => number; readonly isBusy?: () => boolean } = {},
): Promise<void> {
  for (let quiet = 0, seen = -1; quiet < quietRounds; quiet++) {
    await nextTurn();
    const moves = boundary.moves + otherMoves();
    if (moves !== seen || boundary.isBusy || isBusy()) quiet = 0;
    seen = moves;
  }
}

/** One turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
