import type { Command } from './command.ts';
import { filterOptions } from './filter-options.ts';

/** The commands that read instances. */
export const lookCommands: readonly Command[] = [
  {
    name: 'list',
    group: 'look',
    summary: 'List instances, newest first',
    operands: [],
    options: [
      ...filterOptions,
      { name: 'limit', short: 'n', value: 'number', summary: 'Maximum instances (default: 20)' },
      { name: 'cursor', value: 'text', summary: 'Continue after an earlier page' },
      {
        name: 'order',
        value: ['created', 'ended'],
        summary: 'Order by creation (default) or by end',
      },
      { name: 'count', summary: 'Print only the number of instances' },
    ],
    examples: [
      'perdure list --status failed --ended-from 1h',
      'perdure list --name order --tag customer=ada --json',
    ],
    needs: 'target',
    load: () => import('./commands/list.ts'),
  },
];
