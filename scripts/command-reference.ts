import type { Command, Option } from '../src/cli/command.ts';
import { commands } from '../src/cli/commands.ts';
import { filterOptions } from '../src/cli/filter-options.ts';
import { optionLine, usageLine } from '../src/cli/help.ts';
import { commonOptions, targetOptions } from '../src/cli/shared-options.ts';

const titles = {
  start: 'Start',
  look: 'Look',
  steer: 'Steer',
  keep: 'Keep',
  tools: 'Tools',
} as const;

/** Returns the reference part of the guide: every command with its arguments, options and examples. */
export function commandReference(): string {
  const groups = (Object.keys(titles) as (keyof typeof titles)[]).flatMap((group) => {
    const members = commands.filter((command) => command.group === group);
    return members.length === 0 ? [] : [`### ${titles[group]}`, ...members.map(describe)];
  });
  return [
    '### Common options',
    'Commands that read or change a store have the options of a target. Every command has `--json` and `--help`.',
    optionTable([...targetOptions({ needs: 'target' }), ...commonOptions]),
    '### Filters',
    '`list` and the commands that act on many instances have these options. All conditions must hold.',
    optionTable(filterOptions),
    ...groups,
  ].join('\n\n');
}

function describe(command: Command): string {
  const own = command.options.filter((option) => !filterOptions.includes(option));
  const hasFilter = own.length < command.options.length;
  const operands = command.operands.map(
    ({ name, summary }) => `| \`<${name}>\` | ${cell(summary)} |`,
  );
  const options = own.map(row);
  const rows = [...operands, ...options];
  return [
    `#### \`${usageLine(command)}\``,
    `${command.summary}.${hasFilter ? ' Takes [filters](#filters).' : ''}`,
    ...(rows.length === 0
      ? []
      : [['| Argument | Description |', '| --- | --- |', ...rows].join('\n')]),
    ['```sh', ...command.examples, '```'].join('\n'),
  ].join('\n\n');
}

function optionTable(options: readonly Option[]): string {
  return ['| Option | Description |', '| --- | --- |', ...options.map(row)].join('\n');
}

function row(option: Option): string {
  const repeat = option.many === true ? ' (can be repeated)' : '';
  return `| \`${cell(optionLine(option))}\` | ${cell(option.summary)}${repeat} |`;
}

/** Escapes what ends a cell of a table. */
function cell(text: string): string {
  return text.replaceAll('|', String.raw`\|`);
}
