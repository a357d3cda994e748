import type { Output, Terminal } from '../../../src/cli/command.ts';
import { runCommandLine } from '../../../src/cli/run.ts';
import { makeTerminal } from '../../../src/cli/terminal.ts';

/** The result of a command that ran in this process, without a terminal. */
export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command line in this process. */
export async function callCommand(
  argv: readonly string[],
  given: { readonly cwd?: string; readonly env?: Terminal['env']; readonly columns?: number } = {},
): Promise<CommandResult> {
  const { cwd = process.cwd(), env = {}, columns = Number.POSITIVE_INFINITY } = given;
  let stdout = '';
  let stderr = '';
  const output = (write: (text: string) => void): Output => ({
    isTTY: false,
    colour: false,
    columns,
    rows: Number.POSITIVE_INFINITY,
    write,
    style: (_, text) => text,
  });
  const terminal = makeTerminal({
    stdout: output((text) => void (stdout += text)),
    stderr: output((text) => void (stderr += text)),
    interactive: false,
    env,
    cwd,
    home: undefined,
    interrupted: new AbortController().signal,
    readStdin: async () => '',
    ask: () => Promise.reject(new Error('There is no terminal to ask.')),
  });
  const code = await runCommandLine(argv, terminal);
  return { code, stdout, stderr };
}
