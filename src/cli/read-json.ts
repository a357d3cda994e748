import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CliError, usage } from './cli-error.ts';
import type { Terminal } from './command.ts';

/** Parses JSON text, the file of `@file`, or the standard input for `-`. Throws a usage error. */
export async function readJson(
  text: string,
  what: string,
  terminal: Pick<Terminal, 'cwd' | 'readStdin'>,
): Promise<unknown> {
  const source = text === '-' ? 'the standard input' : text.startsWith('@') ? text.slice(1) : what;
  const json =
    text === '-'
      ? await terminal.readStdin()
      : text.startsWith('@')
        ? await readTextFile(resolve(terminal.cwd, text.slice(1)), what)
        : text;
  try {
    return parseJson(json, rejectInexact(source));
  } catch (error) {
    if (error instanceof CliError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw usage(
      `Invalid JSON in ${source}: ${reason.slice(0, 200)}.`,
      'Text needs double quotes, for example \'"Ada"\'.',
    );
  }
}

/** Parses JSON of a file. Editors and shells of Windows write a byte order mark before it. */
export function parseJson(text: string, reviver?: Reviver): unknown {
  return JSON.parse(text.replace(/^\uFEFF/, ''), reviver) as unknown;
}

/** Node.js 22 and newer pass the text of a number. */
type Reviver = (key: string, value: unknown, context?: { readonly source?: string }) => unknown;

/** Throws a usage error for a number that JavaScript would store as another one. */
function rejectInexact(source: string): Reviver {
  return (_key, value, context) => {
    const text = context?.source;
    if (typeof value !== 'number' || text === undefined) return value;
    const isExact =
      Number.isFinite(value) && (!/^-?\d+$/.test(text) || BigInt(text) === BigInt(value));
    if (isExact) return value;
    throw usage(
      `Inexact number ${text.slice(0, 40)} in ${source}: JavaScript would store ${value}.`,
      `Pass it as text: "${text.slice(0, 40)}".`,
    );
  };
}

/** Reads a file. Throws a usage error that names it. */
async function readTextFile(path: string, what: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw usage(
      `Cannot read ${JSON.stringify(path)} for ${what}: ${reasonOf(code)}.`,
      'Check the path and its permissions.',
    );
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'the file does not exist',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a directory',
};

function reasonOf(code: string | undefined): string {
  return (code === undefined ? undefined : reasons[code]) ?? code ?? 'it cannot be read';
}
