import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** The root of the repository. */
export const root = join(import.meta.dirname, '..', '..');

export interface ProgramResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a TypeScript file of the repository in a child process, against the built package. */
export function runProgram(
  file: string,
  options: {
    readonly cwd: string;
    readonly args?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
  },
): Promise<ProgramResult> {
  if (!existsSync(join(root, 'dist', 'index.js'))) {
    throw new Error('dist/index.js is missing: run `npm run build` first.');
  }
  const child = spawn(process.execPath, [join(root, file), ...(options.args ?? [])], {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
}

/** Removes the lines of the default logger, which reports failed attempts. */
export function withoutLogLines(stderr: string): string {
  return stderr.replaceAll(/^perdure (?:warn|error): .*\n(?:\s+at .*\n)*/gm, '');
}
