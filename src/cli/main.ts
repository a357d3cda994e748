#!/usr/bin/env node
/** The program `perdure`. Loads the command line only on a supported Node.js, so that an old one gets one sentence. */
try {
  await import('../require-node.ts');
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}

const { createTerminal } = await import('./terminal.ts');
const { runCommandLine } = await import('./run.ts');

process.exitCode = await runCommandLine(process.argv.slice(2), createTerminal(process));
// On Windows, writes to a pipe are asynchronous.
await new Promise<void>((resolve) => process.stdout.write('', () => resolve()));
// A connection that a library keeps alive must not keep the process alive.
setTimeout(() => {
  // The exit waits for file operations, and the open of a pipe without a writer never ends. The next signal kills the process.
  for (const signal of ['SIGINT', 'SIGTERM']) process.removeAllListeners(signal);
  process.exit();
}, 500).unref();
