/** The most text of payloads in one answer. */
export const maxAnswerLength = 8 * 1024 * 1024;

/**
 * Those of the things found that fit into one answer, at least one. For requests that can be made again: what is not
 * answered is found by the next one.
 */
export function fitting<Found>(
  found: readonly Found[],
  lengthOf: (one: Found) => number,
): readonly Found[] {
  let length = 0;
  const last = found.findIndex((one) => {
    length += lengthOf(one);
    return length > maxAnswerLength;
  });
  return last === -1 ? found : found.slice(0, Math.max(1, last));
}
