import type { Call, Command, ExitCode, Output, Terminal } from './command.ts';
import type { OpenedTarget } from './target/open-target.ts';
import { usage } from './cli-error.ts';
import { orInterrupted } from './interrupts.ts';
import { parseArguments, type ParsedCall } from './parse-arguments.ts';

/** Runs a command line and returns its exit code. Never rejects. */
export async function runCommandLine(
  argv: readonly string[],
  terminal: Terminal,
  given?: readonly Command[],
): Promise<ExitCode> {
  // An argument after -- is no option.
  const end = argv.indexOf('--');
  const isJson = argv.slice(0, end === -1 ? undefined : end).includes('--json');
  let call: ParsedCall | undefined;
  const warnings: string[] = [];
  try {
    const commands = given ?? (await import('./commands.ts')).commands;
    const parsed = parseArguments(argv, commands, terminal);
    if ('help' in parsed) {
      await showHelp(parsed.help, commands, terminal);
      return 0;
    }
    call = parsed;
    if (terminal.cwd === '') {
      throw usage('The working directory does not exist.', 'Change to another directory.');
    }
    return await runCommand(parsed, { argv, commands, warnings }, terminal);
  } catch (error) {
    return await report(error, terminal, { isJson, call, warnings });
  }
}

async function showHelp(
  wanted: Command | string | undefined,
  commands: readonly Command[],
  { stdout }: Terminal,
): Promise<void> {
  const { writeCommandHelp, writeGroupHelp, writeHelp } = await import('./help.ts');
  if (wanted === undefined) writeHelp(stdout, commands);
  else if (typeof wanted === 'string') writeGroupHelp(stdout, wanted, commands);
  else writeCommandHelp(stdout, wanted);
}

async function runCommand(
  parsed: ParsedCall,
  { warnings, ...given }: Pick<Call, 'argv' | 'commands'> & { readonly warnings: string[] },
  terminal: Terminal,
): Promise<ExitCode> {
  const { command, operands, options } = parsed;
  if (command.access === 'write') terminal.outliveReader();
  let target: Promise<OpenedTarget> | undefined;
  const { chooseTarget } = await import('./target/choose-target.ts');
  const json = options.flag('json');
  // With --json, a failure writes one document to the standard error. It has the warnings.
  const quiet = json ? { ...terminal, stderr: collector(terminal.stderr, warnings) } : terminal;
  const choose = () => chooseTarget(command, options, quiet);
  const call: Call = {
    ...given,
    command,
    operands,
    options,
    terminal,
    json,
    choose,
    open: () => {
      target ??= import('./target/open-target.ts').then(({ openTarget }) =>
        openTarget(choose(), quiet),
      );
      return target;
    },
  };
  const { run } = await command.load();
  const work = run(call);
  try {
    return command.handlesInterrupt === true
      ? await work
      : await orInterrupted(work, terminal.interrupted);
  } finally {
    // After Ctrl-C, closing rejects the calls of the command that are still running.
    work.catch(() => undefined);
    await target?.then(
      (opened) => opened.close(),
      () => undefined,
    );
  }
}

/** An output that keeps what is written. */
function collector(output: Output, written: string[]): Output {
  return {
    ...output,
    write: (text) => void written.push(text.trim().replace(/^warning: /, '')),
    style: (_, text) => text,
  };
}

async function report(
  error: unknown,
  { stderr }: Terminal,
  {
    isJson,
    call,
    warnings,
  }: {
    readonly isJson: boolean;
    readonly call: ParsedCall | undefined;
    readonly warnings: readonly string[];
  },
): Promise<ExitCode> {
  const { reportOf } = await import('./exit-codes.ts');
  const { clean, cleanJson } = await import('./text/format.ts');
  const { nextStep } = await import('./text/next-step.ts');
  const reported = reportOf(error);
  const next = nextStep(reported.next, call?.operands[0], call);
  if (isJson) {
    const steps = [next, ...warnings].filter((step) => step !== undefined).join(' ');
    const error = { ...reported, ...(steps !== '' && { next: steps }) };
    stderr.write(`${cleanJson(JSON.stringify({ error }))}\n`);
    return reported.exitCode;
  }
  const label = reported.exitCode === 130 ? '' : `${stderr.style('red', 'error:')} `;
  stderr.write(`${label}${clean(reported.message)}\n`);
  if (next !== undefined) stderr.write(`${clean(next)}\n`);
  return reported.exitCode;
}
