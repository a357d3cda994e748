import type { Command, Option, Output } from './command.ts';
import { commonOptions, targetOptions } from './shared-options.ts';
import { wrap } from './text/table.ts';

const groups = [
  ['start', 'Start'],
  ['look', 'Look'],
  ['steer', 'Steer'],
  ['keep', 'Keep'],
  ['tools', 'Tools'],
] as const;

/** The usage line of a command, without `perdure`. */
export function usageLine({ name, operands }: Pick<Command, 'name' | 'operands'>): string {
  const words = operands.map(({ name: operand, optional, many }) => {
    const text = many === true ? `<${operand}>...` : `<${operand}>`;
    return optional === true ? `[${text}]` : text;
  });
  return [name, ...words].join(' ');
}

/** An option as it is written: `--limit <number>`, `-y, --yes`. */
export function optionLine({ name, short, value, placeholder }: Option): string {
  const dashes = short === undefined ? `--${name}` : `-${short}, --${name}`;
  if (value === undefined) return dashes;
  const kind = placeholder ?? (typeof value === 'string' ? value : value.join(' | '));
  return `${dashes} <${kind}>`;
}

/** Writes the help of all commands. */
export function writeHelp(output: Output, commands: readonly Command[]): void {
  output.write(`Usage: perdure <command> [options]\n`);
  for (const [group, title] of groups) {
    const members = commands.filter((command) => command.group === group);
    if (members.length === 0) continue;
    output.write(`\n${output.style('bold', title)}\n`);
    writePairs(
      output,
      members.map((command) => [command.name, command.summary]),
    );
  }
  output.write(`\n${output.style('bold', 'Options')}\n`);
  writePairs(
    output,
    [...targetOptions({ needs: 'target' }), ...commonOptions].map((option) => [
      optionLine(option),
      option.summary,
    ]),
  );
  output.write('\nRun `perdure <command> --help` for the options and examples of a command.\n');
}

/** Writes the commands that begin with a word. */
export function writeGroupHelp(output: Output, word: string, commands: readonly Command[]): void {
  output.write(`Usage: perdure ${word} <command> [options]\n\n`);
  const members = commands.filter(({ name }) => name === word || name.startsWith(`${word} `));
  writePairs(
    output,
    members.map((command) => [usageLine(command), command.summary]),
  );
}

/** Writes the help of one command. */
export function writeCommandHelp(output: Output, command: Command): void {
  output.write(`Usage: perdure ${usageLine(command)} [options]\n\n`);
  for (const line of wrap(`${command.summary}.`, output.columns)) output.write(`${line}\n`);
  const section = (title: string, pairs: readonly (readonly [string, string])[]): void => {
    if (pairs.length === 0) return;
    output.write(`\n${output.style('bold', title)}\n`);
    writePairs(output, pairs);
  };
  section(
    'Arguments',
    command.operands.map(({ name, summary }) => [`<${name}>`, summary]),
  );
  const pairsOf = (options: readonly Option[]) =>
    options.map((option): [string, string] => [
      optionLine(option),
      option.many === true ? `${option.summary} (can be repeated)` : option.summary,
    ]);
  section('Options', [...pairsOf(command.options), ...pairsOf(commonOptions)]);
  section(command.needs === 'store' ? 'Store' : 'Store or server', pairsOf(targetOptions(command)));
  output.write(`\n${output.style('bold', 'Examples')}\n`);
  for (const example of command.examples) output.write(`  ${example}\n`);
}

const maxLeft = 30;

/** Writes names with their descriptions; a description that does not fit is continued below itself. */
function writePairs(output: Output, pairs: readonly (readonly [string, string])[]): void {
  const widest = Math.max(...pairs.map(([left]) => (left.length <= maxLeft ? left.length : 0)));
  const indent = widest + 4;
  const isNarrow = output.columns - indent < 24;
  for (const [left, right] of pairs) {
    const place = isNarrow ? 6 : indent;
    const lines = wrap(right, Math.min(output.columns, 100) - place);
    const below = isNarrow || left.length > widest;
    const start = below ? `\n${' '.repeat(place)}` : ' '.repeat(place - left.length - 2);
    output.write(`  ${left}${start}${lines.join(`\n${' '.repeat(place)}`)}\n`);
  }
}
