const firstMs = 100;
const longestMs = 3_000;

/** How long to wait before the next attempt: longer each time, and never together with all the others. */
export function backoffMs(attempt: number): number {
  const fullMs = Math.min(longestMs, firstMs * 2 ** Math.min(attempt, 10));
  return fullMs * (0.5 + Math.random() / 2);
}
