import pg from 'pg';
import { onTestFinished, vi } from 'vitest';

/** Removes one fence from a statement of the provider. */
export interface Mutation {
  /** The name of the prepared statement. Variants of it, which lack some of its parts, have longer names. */
  readonly statement: string;
  /** The text to replace. */
  readonly find: RegExp;
  /** Its replacement. */
  readonly replace: string;
  /** How often the text occurs. Default: 1. */
  readonly times?: number;
}

interface Query {
  readonly name?: string;
  readonly text: string;
}

/** Records the text of every prepared statement that the driver sends, until the test ends. */
export function recordStatements(): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  intercept(({ name, text }) => {
    if (name !== undefined) texts.set(name, text);
    return text;
  });
  return texts;
}

/**
 * Changes the statement whenever the driver sends it, until the test ends. Returns how often it was sent: a mutation that
 * was never sent proves nothing.
 */
export function applyMutation(mutation: Mutation): () => number {
  let sent = 0;
  intercept(({ name, text }) => {
    if (!isVariant(name, mutation.statement) || !occurs(mutation.find, text)) return text;
    sent += 1;
    rangesOf(mutation, text);
    return text.replaceAll(asGlobal(mutation.find), () => mutation.replace);
  });
  return () => sent;
}

/** The ranges that a mutation replaces. Throws unless there are `times` of them. */
export function rangesOf(
  { find, times = 1 }: Pick<Mutation, 'find' | 'times'>,
  text: string,
): readonly (readonly [start: number, end: number])[] {
  const ranges = [...text.matchAll(asGlobal(find))].map(
    (match) => [match.index, match.index + match[0].length] as const,
  );
  if (ranges.length === times) return ranges;
  throw new Error(`${String(find)} matches ${ranges.length} times, not ${times}, in:\n${text}`);
}

/** The source of a pattern that matches a text literally. */
export function literally(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

/** Whether a statement is the named one, or a variant of it. */
export function isVariant(name: string | undefined, statement: string): boolean {
  return name === statement || name?.startsWith(`${statement}_with_`) === true;
}

/** Whether a condition is part of a statement. */
export function occurs(find: RegExp, text: string): boolean {
  return text.search(new RegExp(find, 's')) >= 0;
}

function asGlobal(pattern: RegExp): RegExp {
  return new RegExp(pattern, 'gs');
}

function intercept(change: (query: Query) => string): void {
  const query = Reflect.get(pg.Client.prototype, 'query') as (...args: unknown[]) => unknown;
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (
    this: pg.Client,
    ...[first, ...rest]: unknown[]
  ): undefined {
    // A pg.Query was sent before, as two statements, if their texts were not changed.
    const changed =
      typeof first === 'object' && first !== null && 'text' in first && !(first instanceof pg.Query)
        ? { ...first, text: change(first as Query) }
        : first;
    return Reflect.apply(query, this, [changed, ...rest]) as undefined;
  });
  onTestFinished(() => spy.mockRestore());
}
