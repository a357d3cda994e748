import type { Command } from './command.ts';

/** The commands that need no store. */
export const toolCommands: readonly Command[] = [
  {
    name: 'version',
    group: 'tools',
    summary: 'Print the versions of Perdure and Node.js',
    operands: [],
    options: [],
    examples: ['perdure version'],
    needs: 'none',
    load: () => import('./commands/version.ts'),
  },
];
