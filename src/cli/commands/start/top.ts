import { setTimeout as delay } from 'node:timers/promises';
import type { Call, ExitCode } from '../../command.ts';
import { selectorsOf } from '../../doctor/selector.ts';
import { reportOf } from '../../exit-codes.ts';
import { toMs } from '../../../model/values/duration.ts';
import { writeJson } from '../../text/json.ts';
import { renderSnapshot } from '../../top/render.ts';
import { Screen } from '../../top/screen.ts';
import { readSnapshot, type TopSnapshot } from '../../top/snapshot.ts';

const minIntervalMs = 250;

/** Shows a live screen at a terminal; one snapshot in a pipe or with --once. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json, options } = call;
  const { stdout } = terminal;
  const intervalMs = Math.max(minIntervalMs, toMs(options.text('interval') ?? '2s'));
  const { client, choice, label: target } = await call.open();
  const read = (before?: TopSnapshot) =>
    readSnapshot(client, { target, selectors: selectorsOf(choice), before });
  const first = await read();
  if (json) {
    writeJson(stdout, first);
    return 0;
  }
  if (!stdout.isTTY || options.flag('once')) {
    for (const line of renderSnapshot(first, stdout)) stdout.write(`${line}\n`);
    return 0;
  }
  return showLive({ call, first, read, intervalMs });
}

interface LiveParams {
  readonly call: Call;
  readonly first: TopSnapshot;
  readonly read: (before: TopSnapshot) => Promise<TopSnapshot>;
  readonly intervalMs: number;
}

async function showLive({ call, first, read, intervalMs }: LiveParams): Promise<ExitCode> {
  const { stdout, interrupted } = call.terminal;
  let snapshot = first;
  let problem: string | undefined;
  let isPaused = false;
  let offset = 0;
  const ended = Promise.withResolvers<ExitCode>();
  const draw = (): void => {
    const [header = '', ...lines] = renderSnapshot(snapshot, stdout);
    offset = Math.max(0, Math.min(offset, lines.length - (stdout.rows - 2)));
    const state = problem ?? (isPaused ? 'paused' : `every ${intervalMs / 1_000} s`);
    const footer = `q quit  p ${isPaused ? 'resume' : 'pause'}  ↑↓ scroll  ${state}`;
    screen.draw({ header: `perdure top  ${header}`, lines, footer, offset });
  };
  const screen = new Screen(stdout, process.stdin, (key) => {
    if (key === 'quit') ended.resolve(0);
    if (key === 'interrupt') ended.resolve(130);
    if (key === 'pause') isPaused = !isPaused;
    if (key === 'up') offset -= 1;
    if (key === 'down') offset += 1;
    draw();
  });
  const refresh = async (): Promise<void> => {
    try {
      snapshot = await read(snapshot);
      problem = undefined;
    } catch (error) {
      // The next read may succeed: a server restarts.
      problem = `not updated: ${reportOf(error).message}`;
    }
    draw();
  };
  const stopped = new AbortController();
  const refreshAlways = async (): Promise<never> => {
    for (;;) {
      await delay(intervalMs, undefined, { signal: stopped.signal });
      if (!isPaused) await refresh();
    }
  };
  const stop = (): void => ended.resolve(130);
  interrupted.addEventListener('abort', stop, { once: true });
  process.stdout.on('resize', draw);
  try {
    draw();
    return await Promise.race([ended.promise, refreshAlways()]);
  } finally {
    stopped.abort();
    interrupted.removeEventListener('abort', stop);
    process.stdout.off('resize', draw);
    screen.close();
  }
}
