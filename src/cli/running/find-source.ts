import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { usage } from '../cli-error.ts';

/** Returns the absolute path of a file with definitions. Throws a usage error if it is missing or a directory. */
export function findSource(given: string, cwd: string): string {
  const file = resolve(cwd, given);
  const next = 'Pass the file that exports your code, such as src/worker.ts.';
  const kind = kindOf(file);
  if (kind === 'file') return file;
  throw usage(
    kind === 'directory'
      ? `${JSON.stringify(given)} is a directory.`
      : `No such file: ${JSON.stringify(given)}.`,
    next,
  );
}

function kindOf(path: string): 'file' | 'directory' | undefined {
  try {
    return statSync(path).isDirectory() ? 'directory' : 'file';
  } catch {
    return undefined;
  }
}
