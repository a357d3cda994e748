/**
 * Runs the PostgreSQL server of one test run. The first test that needs the server starts this program. It exits with the
 * test run, even if the run is killed.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { setInterval } from 'node:timers';
import { startEmbeddedServer } from './embedded-server.ts';

const [file, run] = process.argv.slice(2);
if (file === undefined || run === undefined) throw new Error('Usage: server-program <file> <pid>');

let removing: Promise<void> | undefined;
const server = await startEmbeddedServer({ durable: false });
const end = (): void => {
  removing ??= server.remove().then(() => process.exit(0));
};
process.on('SIGTERM', end);
process.on('SIGINT', () => undefined);
setInterval(() => {
  try {
    process.kill(Number(run), 0);
  } catch {
    end();
  }
}, 500);
// Renamed into place, so that no reader sees a partial file.
writeFileSync(`${file}.new`, JSON.stringify({ url: server.url, pid: process.pid }));
renameSync(`${file}.new`, file);
