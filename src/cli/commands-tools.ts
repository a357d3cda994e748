import type { Command } from './command.ts';

/** The commands that need no store. */
export const toolCommands: readonly Command[] = [
  {
    name: 'token create',
    group: 'tools',
    summary: 'Create a token for a server, and the entry with its hash',
    operands: [{ name: 'name', summary: 'Name of the bearer, shown in the audit' }],
    options: [
      {
        name: 'role',
        value: ['read', 'operate', 'admin'],
        summary: 'Role of the token (default: read)',
      },
      {
        name: 'definition',
        value: 'text',
        placeholder: 'name',
        many: true,
        summary: 'Definition that the token may use; * matches any text (default: all)',
      },
      { name: 'expires-in', value: 'duration', summary: 'Time until it expires (default: never)' },
      {
        name: 'out',
        value: 'path',
        placeholder: 'file',
        summary: 'Write the token to a new file with mode 0600',
      },
    ],
    examples: ['perdure token create ci --role operate --expires-in 90d --out ci.token'],
    needs: 'none',
    access: 'write',
    load: async () => ({ run: (await import('./commands/tools/token.ts')).create }),
  },
  {
    name: 'completion',
    group: 'tools',
    summary: 'Print the completion script of a shell',
    operands: [{ name: 'shell', summary: 'bash, zsh, fish or powershell' }],
    options: [],
    examples: [
      'perdure completion bash',
      'perdure completion zsh',
      'perdure completion fish',
      'perdure completion powershell',
    ],
    needs: 'none',
    access: 'read',
    load: () => import('./commands/tools/completion.ts'),
  },
  {
    name: 'version',
    group: 'tools',
    summary: 'Print the versions of Perdure and Node.js',
    operands: [],
    options: [],
    examples: ['perdure version'],
    needs: 'none',
    access: 'read',
    load: () => import('./commands/tools/version.ts'),
  },
];
