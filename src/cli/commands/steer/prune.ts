import { readAudit } from '../../audit-options.ts';
import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { countOf } from '../../text/format.ts';
import { readDate } from '../../times.ts';
import { isBulk, runBulk } from './bulk-run.ts';
import { forEachInstance } from './each-instance.ts';

/** Deletes finished executions of instances; the current execution stays. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, operands, terminal } = call;
  const keepLast = options.number('keep-last');
  const completedBefore = readDate(options, 'completed-before');
  if (keepLast === undefined && completedBefore === undefined) {
    throw usage('Pass --keep-last or --completed-before: they choose the executions to delete.');
  }
  const conditions = { keepLast, completedBefore };
  const bulk = isBulk(call);
  const { client } = await call.open();
  if (bulk) {
    return runBulk(call, {
      verb: 'prune',
      doing: 'pruning',
      done: 'pruned',
      run: (filter, given) => client.bulk.prune(filter, { ...given, ...conditions }),
    });
  }
  const dryRun = options.flag('dry-run');
  if (!dryRun && !options.flag('yes')) {
    const count = operands.length;
    await terminal.confirm(`Prune executions of ${countOf(count, 'instance')}`, { count });
  }
  const { actor } = readAudit(call);
  return forEachInstance(call, operands, {
    apply: (id) => client.pruneExecutions(id, { ...conditions, dryRun, actor }),
    text: ({ executionsDeleted, eventsDeleted }) =>
      `${dryRun ? 'would prune' : 'pruned'}: ${countOf(executionsDeleted, 'execution')}, ${countOf(eventsDeleted, 'event')}`,
  });
}
