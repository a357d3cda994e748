import { readAudit } from '../../audit-options.ts';
import { CliError, usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { reportOf } from '../../exit-codes.ts';
import { countOf } from '../../text/format.ts';
import { isBulk, runBulk } from './bulk-run.ts';
import { forEachInstance } from './each-instance.ts';

/** Deletes ended instances with their descendants. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, operands, terminal } = call;
  const force = options.flag('force');
  const bulk = isBulk(call);
  if (bulk && force) throw usage('--force needs an id, not a filter.');
  const { client } = await call.open();
  if (bulk) {
    return runBulk(call, {
      verb: 'delete',
      doing: 'deleting',
      done: 'deleted',
      tree: true,
      defaults: {
        status: ['completed', 'failed', 'canceled', 'terminated', 'skipped', 'expired'],
        rootsOnly: true,
      },
      run: (filter, given) => client.bulk.delete(filter, given),
    });
  }
  if (!options.flag('yes')) {
    const count = operands.length;
    await terminal.confirm(`Delete ${countOf(count, 'instance')} and all descendants`, { count });
  }
  const { actor } = readAudit(call);
  return forEachInstance(call, operands, {
    apply: (id) => client.deleteInstance(id, { force, actor }).catch(suggestForce),
    text: ({ instancesDeleted, eventsDeleted }) =>
      `deleted: ${countOf(instancesDeleted, 'instance')}, ${countOf(eventsDeleted, 'event')}`,
  });
}

function suggestForce(error: unknown): never {
  const { exitCode, code, message, next } = reportOf(error);
  if (code !== 'INSTANCE_STILL_RUNNING') throw error;
  throw new CliError(exitCode, code, message, `${next} Or pass --force to terminate it.`);
}
