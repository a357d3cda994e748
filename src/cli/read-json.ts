import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { usage } from './cli-error.ts';
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
    return parseJson(json);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw usage(
      `Invalid JSON in ${source}: ${reason.slice(0, 200)}.`,
      'Text needs double quotes, for example \'"Ada"\'.',
    );
  }
}

/** Parses JSON of a file. Editors and shells of Windows write a byte order mark before it. */
export function parseJson(text: string): unknown {
  return JSON.parse(text.replace(/^\uFEFF/, '')) as unknown;
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
