/** An id as the last argument of a command that a person copies. `--` precedes an id that begins with a dash. */
export function idArgument(id: string): string {
  return id.startsWith('-') ? `-- ${shellLine([id])}` : shellLine([id]);
}

/** Joins arguments to a line that a POSIX shell splits into the same arguments. */
export function shellLine(words: readonly string[]): string {
  return words
    .map((word) =>
      /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`,
    )
    .join(' ');
}
