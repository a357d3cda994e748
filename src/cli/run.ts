import type { Call, Command, ExitCode, Terminal } from './command.ts';
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
  const isJson = argv.includes('--json');
  let call: ParsedCall | undefined;
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
    return await runCommand(parsed, { argv, commands }, terminal);
  } catch (error) {
    return await report(error, terminal, { isJson, call });
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
  given: Pick<Call, 'argv' | 'commands'>,
  terminal: Terminal,
): Promise<ExitCode> {
  const { command, operands, options } = parsed;
  if (command.access === 'write') terminal.outliveReader();
  let target: Promise<OpenedTarget> | undefined;
  const { chooseTarget } = await import('./target/choose-target.ts');
  const choose = () => chooseTarget(command, options, terminal);
  const call: Call = {
    ...given,
    command,
    operands,
    options,
    terminal,
    json: options.flag('json'),
    choose,
    open: () => {
      target ??= import('./target/open-target.ts').then(({ openTarget }) =>
        openTarget(choose(), terminal),
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

async function report(
  error: unknown,
  { stderr }: Terminal,
  { isJson, call }: { readonly isJson: boolean; readonly call: ParsedCall | undefined },
): Promise<ExitCode> {
  const { reportOf } = await import('./exit-codes.ts');
  const { clean, cleanJson } = await import('./text/format.ts');
  const { nextStep } = await import('./text/next-step.ts');
  const reported = reportOf(error);
  const next = nextStep(reported.next, call?.operands[0], call);
  if (isJson) {
    const error = { ...reported, ...(next !== undefined && { next }) };
    stderr.write(`${cleanJson(JSON.stringify({ error }))}\n`);
    return reported.exitCode;
  }
  const label = reported.exitCode === 130 ? '' : `${stderr.style('red', 'error:')} `;
  stderr.write(`${label}${clean(reported.message)}\n`);
  if (next !== undefined) stderr.write(`${clean(next)}\n`);
  return reported.exitCode;
}
