import { auditOptions } from './audit-options.ts';
import type { Command, Operand, Option } from './command.ts';
import { filterOptions } from './filter-options.ts';

const id: Operand = { name: 'id', summary: 'Id of the instance' };
const ids: Operand = { name: 'id', summary: 'Ids of instances', optional: true, many: true };
const yes: Option = { name: 'yes', short: 'y', summary: 'Confirm without a question' };
const tag: Option = {
  name: 'tag',
  value: 'text',
  placeholder: 'key=value',
  many: true,
  summary: 'Tag of the instance',
};
const tree: Option = { name: 'tree', summary: 'Also all descendants' };

/** The options of a command that acts on all instances that match a filter. */
const bulkOptions: readonly Option[] = [
  ...filterOptions,
  { name: 'all', summary: 'All instances, without a filter' },
  { name: 'dry-run', summary: 'Only count the matching instances' },
  yes,
  { name: 'max', value: 'number', summary: 'Maximum instances to visit' },
  { name: 'cursor', value: 'text', summary: 'Continue an interrupted operation' },
  ...auditOptions,
];

/** The commands that change instances. */
export const steerCommands: readonly Command[] = [
  {
    name: 'start',
    group: 'steer',
    summary: 'Start an orchestration, or run a task',
    operands: [
      { name: 'name', summary: 'Name of the orchestration or task' },
      { name: 'input', summary: 'Input: JSON, @file, or - for the standard input', optional: true },
    ],
    options: [
      { name: 'task', summary: 'Run a task' },
      {
        name: 'id',
        value: 'text',
        summary: 'Id of the instance; makes the start idempotent',
      },
      {
        name: 'definition-version',
        value: 'text',
        summary: 'Version of the orchestration (default: the newest one of a worker)',
      },
      tag,
      {
        name: 'priority',
        value: 'number',
        summary:
          'Priority of the task, or of the calls of the orchestration, 0 to 100, higher first',
      },
      { name: 'delay', value: 'duration', summary: 'Time before the run may start' },
      {
        name: 'run-timeout',
        value: 'duration',
        summary: 'Cancel the run after this time',
      },
      {
        name: 'header',
        value: 'text',
        placeholder: 'name=value',
        many: true,
        summary: 'Header that every handler of the run reads; repeat it for several',
      },
      {
        name: 'expires-in',
        value: 'duration',
        summary: 'Time after which an unstarted task expires',
      },
      {
        name: 'dedupe-key',
        value: 'text',
        summary: 'At most one active run of the task or orchestration has this key',
      },
      {
        name: 'dedupe-for',
        value: 'duration',
        summary: 'Also return the run with the key after its end, for this time after its creation',
      },
      {
        name: 'debounce-key',
        value: 'text',
        summary: 'Move the run with this key that has not started, and replace its input',
      },
      {
        name: 'debounce-wait',
        value: 'duration',
        summary: 'Time from the last start with the debounce key to the start of the run',
      },
      {
        name: 'debounce-max-wait',
        value: 'duration',
        summary: 'Longest time from the first start with the debounce key',
      },
      {
        name: 'key',
        value: 'text',
        summary: 'Key that limits per key count, such as a tenant. Keys are served in turn',
      },
      {
        name: 'weight',
        value: 'number',
        summary: 'Share of the key among the keys that wait, 1 (default) to 100',
      },
      {
        name: 'on-conflict',
        value: ['reject', 'useExisting', 'terminateExisting'],
        summary: 'What to do if the id has another input (default: reject)',
      },
      { name: 'wait', short: 'w', summary: 'Wait for the end and print the output' },
      {
        name: 'timeout',
        value: 'duration',
        summary: 'Maximum wait; then the exit code is 6',
      },
    ],
    examples: [
      `perdure start hello '"Ada"' --wait`,
      'perdure start order @order.json --id order-17 --tag customer=ada',
      `perdure start sync '{"tenant": 7}' --task --priority 10`,
    ],
    needs: 'target',
    access: 'write',
    load: () => import('./commands/steer/start.ts'),
  },
  {
    name: 'retry',
    group: 'steer',
    summary: 'Run ended instances again, by default from the point of failure',
    operands: [ids],
    options: [
      { name: 'from', value: ['failure', 'start'], summary: 'Where to begin (default: failure)' },
      { name: 'input', value: 'json', summary: 'New input, with --from start' },
      ...bulkOptions,
    ],
    examples: [
      'perdure retry order-17',
      'perdure retry --name order --status failed --ended-from 1h --dry-run',
    ],
    needs: 'target',
    access: 'write',
    handlesInterrupt: true,
    load: () => import('./commands/steer/retry.ts'),
  },
  {
    name: 'fork',
    group: 'steer',
    summary: 'Copy the first events of an instance to a new one',
    operands: [id],
    options: [
      {
        name: 'from',
        value: 'text',
        placeholder: 'failure | start | event id',
        summary: 'Last event to copy (default: failure)',
      },
      { name: 'id', value: 'text', summary: 'Id of the new instance' },
      { name: 'execution', value: 'number', summary: 'Number of the execution to copy' },
      { name: 'input', value: 'json', summary: 'New input, with --from start' },
      ...auditOptions,
    ],
    examples: ['perdure fork order-17 --from 12 --id order-17-test'],
    needs: 'target',
    access: 'write',
    load: () => import('./commands/steer/fork.ts'),
  },
  {
    name: 'event',
    group: 'steer',
    summary: 'Send an event to an instance',
    operands: [
      id,
      { name: 'event', summary: 'Name of the event' },
      {
        name: 'payload',
        summary: 'Payload: JSON, @file, or - for the standard input',
        optional: true,
      },
    ],
    options: [
      {
        name: 'key',
        value: 'text',
        summary: 'Deduplicates the event: a repeated key is one event',
      },
    ],
    examples: [`perdure event order-17 shipped '{"parcel": "A1"}'`],
    needs: 'target',
    access: 'write',
    load: () => import('./commands/steer/event.ts'),
  },
  {
    name: 'update',
    group: 'steer',
    summary: 'Send an update to a running instance, and print the reply',
    operands: [
      id,
      { name: 'update', summary: 'Name of the update' },
      { name: 'input', summary: 'Input: JSON, @file, or - for the standard input', optional: true },
    ],
    options: [
      {
        name: 'key',
        value: 'text',
        summary: 'Key: a repeat with the same key gets the same reply',
      },
      { name: 'timeout', value: 'duration', summary: 'Maximum wait; then the exit code is 6' },
    ],
    examples: [`perdure update cart-7 addItem '"apple"' --timeout 10s`],
    needs: 'target',
    access: 'write',
    load: () => import('./commands/steer/update.ts'),
  },
  {
    name: 'cancel',
    group: 'steer',
    summary: 'Ask instances to stop; their code can clean up',
    operands: [ids],
    options: [
      { name: 'wait', short: 'w', summary: 'Wait until each instance has ended' },
      {
        name: 'cleanup-timeout',
        value: 'duration',
        summary: 'Time for clean-up (default: 5m)',
      },
      ...bulkOptions,
    ],
    examples: [
      'perdure cancel order-17 --reason "customer asked" --wait',
      'perdure cancel --tag customer=ada --dry-run',
    ],
    needs: 'target',
    access: 'write',
    handlesInterrupt: true,
    load: () => import('./commands/steer/cancel.ts'),
  },
  {
    name: 'terminate',
    group: 'steer',
    summary: 'End instances immediately, without running their code',
    operands: [ids],
    options: [tree, ...bulkOptions],
    examples: ['perdure terminate order-17 --tree --yes'],
    needs: 'target',
    access: 'write',
    handlesInterrupt: true,
    load: () => import('./commands/steer/terminate.ts'),
  },
  ...(['pause', 'resume'] as const).map((name): Command => ({
    name,
    group: 'steer',
    summary:
      name === 'pause'
        ? 'Pause instances, or a definition for all workers'
        : 'Resume paused instances, or a definition',
    operands: [ids],
    options: [
      { name: 'definition', value: 'text', placeholder: 'name', summary: 'Name of a definition' },
      {
        name: 'definition-kind',
        value: ['orchestration', 'activity', 'task'],
        summary: 'Kind of the definition (default: all)',
      },
      tree,
      ...bulkOptions,
    ],
    examples: [`perdure ${name} order-17`, `perdure ${name} --definition sync`],
    needs: 'target',
    access: 'write',
    handlesInterrupt: true,
    load: async () => ({ run: (await import('./commands/steer/pause.ts'))[name] }),
  })),
  {
    name: 'delete',
    group: 'keep',
    summary: 'Delete ended instances with their descendants',
    operands: [ids],
    options: [
      { name: 'force', summary: 'Also delete an instance that has not ended' },
      ...bulkOptions,
    ],
    examples: [
      'perdure delete order-17 --yes',
      'perdure delete --status completed --ended-before 30d --dry-run',
    ],
    needs: 'target',
    access: 'write',
    handlesInterrupt: true,
    load: () => import('./commands/steer/delete.ts'),
  },
  {
    name: 'prune',
    group: 'keep',
    summary: 'Delete finished executions of instances; the current execution stays',
    operands: [ids],
    options: [
      { name: 'keep-last', value: 'number', summary: 'Number of latest executions to keep' },
      {
        name: 'completed-before',
        value: 'time',
        summary: 'Executions that ended before this time',
      },
      ...bulkOptions,
    ],
    examples: ['perdure prune --name poller --keep-last 10 --yes'],
    needs: 'target',
    access: 'write',
    handlesInterrupt: true,
    load: () => import('./commands/steer/prune.ts'),
  },
];
