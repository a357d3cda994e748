import { homedir } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';
import { interrupted, refused } from './cli-error.ts';
import type { Output, Progress, Style, Terminal } from './command.ts';
import { formatCount } from './text/format.ts';
import { drawBar } from './text/progress-bar.ts';

/** The parts of `process` that a terminal uses. */
export type Host = Pick<
  NodeJS.Process,
  'stdin' | 'stdout' | 'stderr' | 'env' | 'cwd' | 'on' | 'off' | 'exit'
>;

/** Above this number of instances, a confirmation is the number itself. */
const typedAbove = 100;

/** Creates the terminal of a process. The second Ctrl-C ends the process immediately. */
export function createTerminal(host: Host): Terminal {
  const controller = new AbortController();
  const onSignal = (): void => {
    if (!controller.signal.aborted) return controller.abort();
    // The exit waits for file operations, and the open of a pipe without a writer never ends. The next signal kills the process.
    host.off('SIGINT', onSignal);
    host.off('SIGTERM', onSignal);
    host.exit(130);
  };
  host.on('SIGINT', onSignal);
  host.on('SIGTERM', onSignal);
  const reader = watchReader(host);
  const stderr = toOutput(host.stderr, host.env);
  return makeTerminal({
    stdout: toOutput(host.stdout, host.env, () => !reader.hasEnded),
    stderr,
    interactive: Boolean(host.stdin.isTTY) && stderr.isTTY,
    env: host.env,
    cwd: readCwd(host),
    home: findHome(host.env),
    interrupted: controller.signal,
    readStdin: () => readAll(host.stdin),
    ask: (question) => ask(host, question, controller.signal),
    outliveReader: reader.outlive,
  });
}

/** Adds confirmations and progress bars to the parts of a terminal. */
export function makeTerminal(parts: Omit<Terminal, 'confirm' | 'progress'>): Terminal {
  return {
    ...parts,
    confirm: (question, { count } = {}) => confirm(parts, question, count),
    progress: (label) => startProgress(parts.stderr, label),
  };
}

/**
 * Handles the end of the reader of a pipe, which may end first, as `head` does. That is no error of this program. Other errors of
 * the output are, such as a full disk.
 */
function watchReader(host: Host): { readonly hasEnded: boolean; readonly outlive: () => void } {
  const state = {
    hasEnded: false,
    mayOutlive: false,
    outlive: () => void (state.mayOutlive = true),
  };
  host.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (state.hasEnded) return;
    state.hasEnded = true;
    const isPipe = error.code === 'EPIPE';
    if (!isPipe) {
      host.stderr.write(`error: Cannot write to the standard output: ${error.message}.\n`);
    }
    if (!state.mayOutlive) host.exit(isPipe ? 0 : 1);
  });
  // Without a reader of messages, the work goes on.
  host.stderr.on('error', () => undefined);
  return state;
}

function toOutput(
  stream: NodeJS.WriteStream,
  env: NodeJS.ProcessEnv,
  mayWrite = () => true,
): Output {
  // `undefined` in a pipe.
  const isTTY = Boolean(stream.isTTY);
  const colour = isTTY && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
  return {
    isTTY,
    colour,
    get columns() {
      return isTTY ? stream.columns || 80 : Number.POSITIVE_INFINITY;
    },
    get rows() {
      return isTTY ? stream.rows || 24 : Number.POSITIVE_INFINITY;
    },
    write: (text) => {
      if (mayWrite()) stream.write(text);
    },
    style: (style: Style, text) =>
      colour ? styleText(style, text, { validateStream: false }) : text,
  };
}

/** Returns the working directory, or an empty text if it was deleted. */
function readCwd(host: Host): string {
  try {
    return host.cwd();
  } catch {
    return '';
  }
}

/** Returns the home directory; `undefined` if there is none. */
function findHome(env: NodeJS.ProcessEnv): string | undefined {
  if (env['HOME'] !== undefined && env['HOME'] !== '') return env['HOME'];
  try {
    const home = homedir();
    return home === '' ? undefined : home;
  } catch {
    return undefined; // The user has no entry in the system's list.
  }
}

async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString('utf8');
}

async function ask(host: Host, question: string, signal: AbortSignal): Promise<string> {
  const reader = createInterface({ input: host.stdin, output: host.stderr });
  // In raw mode, Ctrl-C is a key and no signal.
  const keyPressed = new AbortController();
  reader.on('SIGINT', () => keyPressed.abort());
  reader.on('close', () => keyPressed.abort());
  try {
    return await reader.question(question, {
      signal: AbortSignal.any([signal, keyPressed.signal]),
    });
  } catch {
    host.stderr.write('\n');
    throw interrupted('Interrupted. Nothing was changed.');
  } finally {
    reader.close();
  }
}

async function confirm(
  { interactive, ask: read }: Pick<Terminal, 'interactive' | 'ask'>,
  question: string,
  count: number | undefined,
): Promise<void> {
  if (!interactive) {
    throw refused(
      `${question} needs a confirmation, and there is no terminal to ask. Nothing was changed.`,
      'Pass --yes to confirm.',
    );
  }
  const wanted = count !== undefined && count > typedAbove ? String(count) : 'yes';
  const answer = await read(
    wanted === 'yes'
      ? `${question}? Type yes to confirm: `
      : `${question}? Type the number ${wanted} to confirm: `,
  );
  const given = answer.trim().toLowerCase().replaceAll(',', '');
  if (given === wanted || (wanted === 'yes' && given === 'y')) return;
  throw refused('Not confirmed. Nothing was changed.');
}

const redrawMs = 80;

function startProgress(output: Output, label: string): Progress {
  let drawnAt = Number.NEGATIVE_INFINITY;
  let isDrawn = false;
  return {
    update(done, total) {
      const now = performance.now();
      if (!output.isTTY || (now - drawnAt < redrawMs && done !== total)) return;
      drawnAt = now;
      isDrawn = true;
      const bar = drawBar({ label, done, total, columns: output.columns, format: formatCount });
      output.write(`\r\u001B[K${bar}`);
    },
    end() {
      if (isDrawn) output.write('\r\u001B[K');
      isDrawn = false;
    },
  };
}
