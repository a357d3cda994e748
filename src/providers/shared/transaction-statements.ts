import { PerdureError } from '../../model/failures/errors.ts';
import { platform } from '../../model/platform.ts';

/** The statements of a store that would end a transaction, or change its connection. */
export interface ForbiddenStatements {
  readonly keywords: ReadonlySet<string>;
  /** What to use instead, for the message. */
  readonly advice: string;
}

/**
 * Throws `TRANSACTION_STATEMENT` for a statement that would end the transaction of `ctx.transaction`, or change its
 * connection. Savepoints are allowed. `sql` is one statement, with its leading comments.
 */
export function assertAllowed(sql: string, { keywords, advice }: ForbiddenStatements): void {
  const words = leadingWords(sql);
  const [first = ''] = words;
  if (!keywords.has(first)) return;
  // `ROLLBACK [WORK | TRANSACTION] TO x` undoes the writes since a savepoint.
  if (first === 'ROLLBACK' && (words[1] === 'TO' || words[2] === 'TO')) return;
  if (first === 'PREPARE' && words[1] !== 'TRANSACTION') return;
  throw new PerdureError(
    'TRANSACTION_STATEMENT',
    `Statement ${JSON.stringify(first)} is not allowed in ctx.transaction(). ${advice}`,
  );
}

/** Returns the first three words of a statement in upper case, after comments, white space and empty statements. */
function leadingWords(sql: string): readonly string[] {
  const words: string[] = [];
  let rest = sql;
  while (words.length < 3) {
    rest = skipSpace(rest, words.length === 0 ? /^[\s;]+/ : /^\s+/);
    const word = /^[A-Za-z_]+/.exec(rest)?.[0];
    if (word === undefined) break;
    words.push(word.toUpperCase());
    rest = rest.slice(word.length);
  }
  return words;
}

function skipSpace(sql: string, space: RegExp): string {
  let rest = sql;
  for (;;) {
    const before = rest;
    rest = rest.replace(space, '');
    if (rest.startsWith('--')) rest = rest.replace(/^--[^\n]*/, '');
    else if (rest.startsWith('/*')) rest = rest.slice(commentLength(rest));
    if (rest === before) return rest;
  }
}

/** The length of a block comment at the start of the text. PostgreSQL nests them. */
function commentLength(text: string): number {
  let depth = 0;
  for (const { 0: mark, index } of text.matchAll(/\/\*|\*\//g)) {
    depth += mark === '/*' ? 1 : -1;
    if (depth === 0) return index + 2;
  }
  return text.length;
}

/** `tx` was used after its closure has ended, or after a statement has ended its transaction. */
export function transactionClosed(problem = 'its closure has ended'): PerdureError {
  return new PerdureError(
    'TRANSACTION_CLOSED',
    `The transaction cannot be used: ${problem}. Await every statement inside the closure of ctx.transaction().`,
  );
}

/** The closure took too long and was rolled back. */
function transactionTimeout(ms: number): PerdureError {
  return new PerdureError(
    'TRANSACTION_TIMEOUT',
    `The closure of ctx.transaction() took longer than ${ms} ms and was rolled back. Do slow work before it, or raise \`timeout\`.`,
  );
}

/** Settles with `work`, or rejects after `ms` or when the signal is aborted. `work` continues, and its result is ignored. */
export async function withinLimits<T>(
  { ms, signal }: { readonly ms: number; readonly signal: AbortSignal | undefined },
  work: () => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const limit = Promise.withResolvers<never>();
  const timer = platform.setTimeout(() => limit.reject(transactionTimeout(ms)), ms);
  const onAbort = (): void => limit.reject(signal?.reason as Error);
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work(), limit.promise]);
  } finally {
    platform.clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}
