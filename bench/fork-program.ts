import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** Starts a program of this folder and waits for its first message. Rejects if it exits before. */
export async function forkProgram(name: string, args: readonly string[]): Promise<ChildProcess> {
  const child = fork(join(import.meta.dirname, name), args);
  const exited = once(child, 'exit').then(([code]) => {
    throw new Error(`${name} exited with code ${code}.`);
  });
  await Promise.race([once(child, 'message'), exited]);
  // Later exits are expected.
  exited.catch(() => undefined);
  return child;
}
