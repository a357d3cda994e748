import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runDirectory } from './server.ts';

/** Prepares a directory for the server, which the first test that needs it starts. Returns the teardown. */
export function setup(): (() => Promise<void>) | undefined {
  // Called once per Vitest project; all projects share one server.
  if (process.env[runDirectory] !== undefined) return undefined;
  const directory = mkdtempSync(join(tmpdir(), 'perdure-tests-'));
  process.env[runDirectory] = directory;
  // Child processes share one compile cache.
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
    // The process has exited.
  }
}
