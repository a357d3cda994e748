/** `npm start`: three orders on an SQLite file, a worker process that is killed in the middle, and the proof. */
import { fork, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { countSteps, readLedger } from './ledger.ts';
import { orders, steps, type Step } from './order.ts';
import { Progress } from './progress.ts';
import { openScreen } from './screen.ts';
import type { WorkerReport } from './worker.ts';

const folder = mkdtempSync(join(tmpdir(), 'perdure-demo-'));
const storePath = join(folder, 'orders.db');
const ledgerPath = process.env['PERDURE_DEMO_LEDGER'] ?? join(folder, 'ledger.jsonl');

const progress = new Progress();
const screen = openScreen(progress);
let worker: ChildProcess | undefined;

/** Starts a worker process; `onReport` hears what it does, `exited` resolves when it is gone. */
function startWorker(onReport: (report: WorkerReport) => void) {
  const child = fork(join(import.meta.dirname, 'worker.ts'), [storePath, ledgerPath]);
  worker = child;
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.on('message', (message) => {
    const report = message as WorkerReport;
    show(report);
    onReport(report);
  });
  return { pid: child.pid, exited, kill: () => child.kill('SIGKILL') };
}

function show(report: WorkerReport): void {
  if (report.kind === 'begun') change(report.order, report.step, 'running');
  // A step counts once it is in the store; what it did a moment earlier is in the ledger already.
  if (report.kind === 'recorded') change(report.order, report.step, 'done');
}

function change(order: string, step: Step, state: 'running' | 'done' | 'cut off'): void {
  progress.set(order, step, state);
  screen.changed(order, step, state);
}

/** Runs until five steps are recorded and others are in the middle of their work, then kills the process. */
async function runUntilKilled(): Promise<void> {
  const halfway = Promise.withResolvers<void>();
  const first = startWorker(() => {
    if (progress.count('done') === 5) halfway.resolve();
  });
  screen.say(`Worker process ${first.pid} runs three orders.`);
  await Promise.race([halfway.promise, first.exited]);
  await pause(100);
  first.kill();
  await first.exited;
  const cutOff = orders.flatMap(({ id }) =>
    steps.filter((step) => progress.state(id, step) === 'running').map((step) => ({ id, step })),
  );
  progress.crash();
  screen.say(
    `Process ${first.pid} was killed with SIGKILL: ${progress.count('done')} steps were recorded, ` +
      `${cutOff.length} were in the middle.`,
  );
  for (const { id, step } of cutOff) screen.changed(id, step, 'cut off');
}

/** Starts the worker again and waits until every order is on its way. */
async function runToTheEnd(): Promise<void> {
  let finished = 0;
  const second = startWorker((report) => {
    if (report.kind === 'finished') finished += 1;
  });
  screen.say(`Worker process ${second.pid} opens the same file and goes on.`);
  await second.exited;
  if (finished < orders.length) throw new Error('The second worker ended before its orders did.');
}

/** Compares what is recorded with what really happened, by a file that Perdure has never seen. */
function prove(recordedBeforeKill: ReadonlySet<string>): boolean {
  const counts = countSteps(readLedger(ledgerPath));
  const keyOf = ({ order, step }: { order: string; step: string }) => `${order} ${step}`;
  const missing = progress.total - counts.filter(({ done }) => done > 0).length;
  const repeated = counts.filter(
    (count) => recordedBeforeKill.has(keyOf(count)) && count.begun > 1,
  );
  const again = counts.filter((count) => !recordedBeforeKill.has(keyOf(count)) && count.begun > 1);
  screen.say('The ledger, a plain file that the activities wrote themselves, says:');
  screen.say(`  ${counts.length - again.length} steps were begun once and done once;`);
  for (const { order, step, done } of again) {
    screen.say(
      `  ${order}, ${step}: cut off, begun again, done ${done === 1 ? 'once' : `${done} times`};`,
    );
  }
  screen.say(
    `  ${repeated.length} of the ${recordedBeforeKill.size} recorded steps were repeated.`,
  );
  return missing === 0 && repeated.length === 0;
}

function recordedSteps(): ReadonlySet<string> {
  return new Set(
    orders.flatMap(({ id }) =>
      steps.filter((step) => progress.state(id, step) === 'done').map((step) => `${id} ${step}`),
    ),
  );
}

function cleanUp(): void {
  worker?.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

process.once('SIGINT', () => {
  screen.end();
  cleanUp();
  process.exit(130);
});

try {
  screen.say('Perdure: three orders, four steps each, one SQLite file. One process will die.');
  screen.say();
  await runUntilKilled();
  const recorded = recordedSteps();
  await pause(900);
  await runToTheEnd();
  screen.end();
  if (prove(recorded)) screen.say('\nNothing was lost and nothing that was recorded ran again.');
  else {
    screen.say('\nThat is wrong: a recorded step was lost or repeated. Please report it.');
    process.exitCode = 1;
  }
} finally {
  screen.end();
  cleanUp();
}
