/** Returns the name that a misspelled one probably means: at most two edits away. */
export function closestName(given: string, names: readonly string[]): string | undefined {
  const byDistance = names
    .map((name) => ({ name, distance: editDistance(given, name) }))
    .sort((one, other) => one.distance - other.distance);
  return byDistance.find(({ name, distance }) => distance <= 2 && distance < name.length)?.name;
}

/** How many characters must be added, removed or replaced to turn one name into the other. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let index = 0; index < Math.min(one.length, 80); index += 1) {
    const next = [index + 1];
    for (let at = 0; at < other.length; at += 1) {
      const replaced = (row[at] ?? 0) + (one[index] === other[at] ? 0 : 1);
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
