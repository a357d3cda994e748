import type { Command, ExitCode, Output, Terminal } from '../../../src/cli/command.ts';
import { runCommandLine } from '../../../src/cli/run.ts';
import { makeTerminal } from '../../../src/cli/terminal.ts';

/** The surroundings of a call. By default a pipe, without environment, home directory and configuration. */
export interface Surroundings {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  readonly home?: string;
  readonly stdin?: string;
  /** Makes the streams a terminal of this width. */
  readonly columns?: number;
  /** Answers to questions, in order. Implies that a person can answer. */
  readonly answers?: readonly string[];
  readonly signal?: AbortSignal;
  readonly commands?: readonly Command[];
  /** Called with everything that is written to the standard error. */
  readonly onMessage?: (text: string) => void;
}

/** The outcome of a call. */
export interface CliResult {
  readonly code: ExitCode;
  readonly stdout: string;
  readonly stderr: string;
  /** Questions that were asked. */
  readonly questions: readonly string[];
  /** The standard output as JSON. */
  readonly json: unknown;
}

/** Runs a command line in this process. */
export async function runCli(
  argv: readonly string[],
  surroundings: Surroundings = {},
): Promise<CliResult> {
  const { env = {}, cwd = '/nonexistent', home, stdin = '', columns, answers } = surroundings;
  const written = { stdout: '', stderr: '' };
  const questions: string[] = [];
  const output = (name: 'stdout' | 'stderr'): Output => ({
    isTTY: columns !== undefined,
    colour: false,
    columns: columns ?? Number.POSITIVE_INFINITY,
    rows: 24,
    write: (text) => {
      written[name] += text;
      if (name === 'stderr') surroundings.onMessage?.(text);
    },
    style: (_, text) => text,
  });
  const terminal: Terminal = makeTerminal({
    stdout: output('stdout'),
    stderr: output('stderr'),
    interactive: answers !== undefined,
    env,
    cwd,
    home,
    interrupted: surroundings.signal ?? new AbortController().signal,
    readStdin: () => Promise.resolve(stdin),
    outliveReader: () => undefined,
    ask: (question) => {
      questions.push(question);
      return Promise.resolve(answers?.[questions.length - 1] ?? '');
    },
  });
  const code = await runCommandLine(argv, terminal, surroundings.commands);
  return {
    code,
    ...written,
    questions,
    get json() {
      return JSON.parse(written.stdout) as unknown;
    },
  };
}
