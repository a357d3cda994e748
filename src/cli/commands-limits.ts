import { auditOptions } from './audit-options.ts';
import type { Command, Operand, Option } from './command.ts';

const definition: Operand = { name: 'name', summary: 'Name of the definition' };
const kind: Option = {
  name: 'kind',
  value: ['orchestration', 'activity', 'task'],
  summary: 'Kind of the definition, if its name is not unique or it has no limits yet',
};
const limit: Option = { name: 'limit', short: 'n', value: 'number', summary: 'Maximum entries' };
const after: Option = { name: 'after', value: 'text', summary: 'Continue after an earlier page' };

/** The commands for limits. */
export const limitCommands: readonly Command[] = [
  {
    name: 'limits list',
    group: 'keep',
    summary: 'List the definitions that have limits or keys, with the places in use',
    operands: [],
    options: [limit, after],
    examples: ['perdure limits list'],
    needs: 'target',
    access: 'read',
    load: async () => ({ run: (await import('./commands/store/limits.ts')).list }),
  },
  {
    name: 'limits show',
    group: 'keep',
    summary: 'Show the limits of a definition, and its keys with the most waiting runs',
    operands: [definition],
    options: [
      kind,
      {
        name: 'order',
        value: ['waiting', 'key'],
        summary: 'Order of the keys (default: waiting). By key, there are pages',
      },
      limit,
      after,
    ],
    examples: ['perdure limits show sync', 'perdure limits show sync --order key -n 100'],
    needs: 'target',
    access: 'read',
    load: async () => ({ run: (await import('./commands/store/limits.ts')).show }),
  },
  {
    name: 'limits set',
    group: 'keep',
    summary: 'Change the limits of a definition for all workers, now',
    operands: [definition],
    options: [
      kind,
      {
        name: 'global',
        value: 'text',
        placeholder: 'count | none',
        summary: 'Maximum concurrent runs over all workers',
      },
      {
        name: 'per-key',
        value: 'text',
        placeholder: 'count | none',
        summary: 'Maximum concurrent runs of one key',
      },
      {
        name: 'rate',
        value: 'text',
        placeholder: 'count/period | none',
        summary: 'Maximum starts in a period, such as 100/1m',
      },
      {
        name: 'burst',
        value: 'number',
        summary:
          'Starts that may come immediately after an idle time (default: those of 100 ms). Needs --rate',
      },
      { name: 'rate-per-key', summary: 'Each key has the rate. Needs --rate' },
      ...auditOptions,
    ],
    examples: [
      'perdure limits set sync --global 10 --reason "the API is slow"',
      'perdure limits set sync --rate 100/1m --rate-per-key --per-key none',
    ],
    needs: 'target',
    access: 'write',
    load: async () => ({ run: (await import('./commands/store/limits.ts')).set }),
  },
  {
    name: 'limits reset',
    group: 'keep',
    summary: 'Return to the limits of the code',
    operands: [definition],
    options: [kind, ...auditOptions],
    examples: ['perdure limits reset sync'],
    needs: 'target',
    access: 'write',
    load: async () => ({ run: (await import('./commands/store/limits.ts')).reset }),
  },
];
