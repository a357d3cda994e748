import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runDirectory } from './server.ts';

/** Prepares a place for a server, which the first test starts that needs one; answers how to end that. */
export function setup(): (() => Promise<void>) | undefined {
  // Each project of the run calls; one server serves them all.
  if (process.env[runDirectory] !== undefined) return undefined;
  const directory = mkdtempSync(join(tmpdir(), 'perdure-tests-'));
  process.env[runDirectory] = directory;
  // Many tests start programs: each would compile the same sources anew.
  process.env['NODE_COMPILE_CACHE'] ??= join(directory, 'compile-cache');
  return async () => {
    delete process.env[runDirectory];
    const file = join(directory, 'server.json');
    if (existsSync(file)) {
      const { pid } = JSON.parse(readFileSync(file, 'utf8')) as { readonly pid: number };
      await end(pid);
    }
    rmSync(directory, { recursive: true, force: true });
  };
}

async function end(pid: number): Promise<void> {
  try {
    process.kill(pid, 'SIGTERM');
    for (;;) {
      process.kill(pid, 0);
      await delay(10);
    }
  } catch {
    // It is gone.
  }
}
