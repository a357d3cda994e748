/**
 * `npm start`: runs three orders on an SQLite file, kills the worker process, resumes in another, and checks the outcome.
 * On a terminal, or with `--stay`, it also serves the dashboard, and goes on with new orders until Ctrl-C.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { styleText } from 'node:util';
import { openDashboard, type DemoDashboard } from './dashboard.ts';
import { countSteps, readLedger } from './ledger.ts';
import { orders } from './order.ts';
import { Progress } from './progress.ts';
import { openScreen } from './screen.ts';
import { WorkerProcess } from './worker-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'perdure-demo-'));
const storePath = join(folder, 'orders.db');
// Set PERDURE_DEMO_LEDGER to keep the ledger after the demo.
const ledgerPath = process.env['PERDURE_DEMO_LEDGER'] ?? join(folder, 'ledger.jsonl');

const progress = new Progress();
const screen = openScreen(progress);
const stays = process.stdout.isTTY || process.argv.includes('--stay');
let worker: WorkerProcess | undefined;
let dashboard: DemoDashboard | undefined;

function startWorker(): WorkerProcess {
  worker = new WorkerProcess({ storePath, ledgerPath });
  worker.onReport((report) => {
    if (report.kind === 'begun') progress.set(report.order, report.step, 'running');
    // A step counts as done once its turn has committed. Its ledger entry is older.
    if (report.kind === 'recorded') progress.set(report.order, report.step, 'done');
    if (report.kind === 'begun' || report.kind === 'recorded') {
      screen.changed(report.order, report.step, progress.state(report.order, report.step));
    }
  });
  return worker;
}

/** Runs until five steps are recorded and others are running, then kills the process. */
async function runUntilKilled(): Promise<void> {
  const first = startWorker();
  screen.say(`Process ${first.pid} runs three orders.`);
  await first.until(() => progress.count('done') >= 5);
  await pause(60);
  await first.kill();
  const interrupted = progress.inState('running');
  progress.crash();
  const killed = styleText(['bold', 'red'], `Process ${first.pid} is killed (SIGKILL)`);
  screen.say(
    `${killed}: ${progress.count('done')} steps are recorded, ${interrupted.length} were running.`,
  );
  for (const { order, step } of interrupted) screen.changed(order, step, 'interrupted');
}

/** Starts another process on the same file and waits until every order has completed. */
async function runToTheEnd(): Promise<void> {
  const second = startWorker();
  let finished = 0;
  second.onReport((report) => {
    if (report.kind === 'finished') finished += 1;
  });
  screen.say(
    `Process ${second.pid} opens the same file and takes over the claims of the dead process:`,
  );
  screen.say('immediately on Linux, elsewhere when their leases expire (1 s in this demo).');
  await second.until(() => finished === orders.length);
  await second.exited;
}

/** Compares the recorded steps with the ledger, which Perdure does not use. */
function prove(recorded: ReadonlySet<string>): boolean {
  const counts = countSteps(readLedger(ledgerPath));
  const isRecorded = (count: { order: string; step: string }) =>
    recorded.has(`${count.order} ${count.step}`);
  const again = counts.filter(({ begun }) => begun > 1);
  const repeated = again.filter(isRecorded);
  const done = counts.filter((count) => count.done > 0);
  screen.say('The activities wrote their effects to a ledger, a plain file. According to it:');
  screen.say(`  ${done.length} of ${progress.total} steps were done;`);
  screen.say(`  ${counts.length - again.length} of them were begun exactly once;`);
  for (const { order, step, done: times } of again.filter((count) => !isRecorded(count))) {
    const result = times === 1 ? 'done once' : `done ${times} times`;
    screen.say(`  ${order}, ${step}: interrupted by the kill, begun again, ${result};`);
  }
  screen.say(
    `  of the ${recorded.size} steps recorded before the kill, ${repeated.length} ran again.`,
  );
  return done.length === progress.total && repeated.length === 0;
}

/** Kills the worker every few seconds while it runs new orders, until the demo is interrupted. */
async function killAgainAndAgain({ url, countOrders }: DemoDashboard): Promise<never> {
  screen.say(`\nNew orders arrive, and the worker is killed every 6 s. Watch them: ${url}`);
  screen.say('Press Ctrl-C to end the demo.');
  for (;;) {
    const current = new WorkerProcess({ storePath, ledgerPath, takesNewOrders: true });
    worker = current;
    await current.runFor(6_000);
    await current.kill();
    const { completed, open } = await countOrders();
    const killed = styleText('red', `Process ${current.pid} is killed`);
    screen.say(`${killed}: ${completed} orders completed, ${open} continue in the next process.`);
  }
}

async function interrupt(): Promise<never> {
  worker?.destroy();
  // Windows deletes no open file.
  await dashboard?.close();
  process.exit(130);
}

function cleanUp(): void {
  screen.end();
  worker?.destroy();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

// Leave no process and no file behind, however the demo ends.
process.once('exit', cleanUp);
process.once('SIGINT', () => void interrupt());
process.once('SIGTERM', () => process.exit(143));
process.stdout.once('error', () => process.exit(1));

screen.say(
  styleText('bold', 'Perdure: three orders, one SQLite file, and a worker killed with SIGKILL'),
);
if (stays) {
  dashboard = await openDashboard(storePath);
  screen.say(`Dashboard: ${styleText(['bold', 'underline'], dashboard.url)}`);
}
screen.say();
await runUntilKilled();
const recorded = new Set(progress.inState('done').map(({ order, step }) => `${order} ${step}`));
await pause(700);
await runToTheEnd();
screen.end();
if (prove(recorded)) {
  const verdict = 'Nothing was lost, and nothing that was recorded ran again.';
  screen.say(`\n${styleText(['bold', 'green'], verdict)}`);
  screen.say('The code is in demo/order.ts. To write your own, see the quick start in README.md.');
} else {
  screen.say('\nThis is a bug: a step was lost, or a recorded step ran again. Please report it.');
  process.exitCode = 1;
}
if (dashboard !== undefined) await killAgainAndAgain(dashboard);
