import { notFound } from '../../../model/failures/errors.ts';
import { readAudit } from '../../audit-options.ts';
import type { Call, ExitCode } from '../../command.ts';
import { countOf } from '../../text/format.ts';
import { isBulk, runBulk } from './bulk-run.ts';
import { forEachInstance } from './each-instance.ts';

/** Ends instances immediately, without running their code. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, operands, terminal } = call;
  const tree = options.flag('tree');
  const bulk = isBulk(call);
  const { client } = await call.open();
  if (bulk) {
    return runBulk(call, {
      verb: 'terminate',
      doing: 'terminating',
      done: 'terminated',
      tree,
      defaults: { status: ['pending', 'running', 'canceling'] },
      run: (filter, given) => client.bulk.terminate(filter, { ...given, tree }),
    });
  }
  if (!options.flag('yes')) {
    const count = operands.length;
    await terminal.confirm(`Terminate ${countOf(count, 'instance')} without clean-up`, { count });
  }
  return forEachInstance(call, operands, {
    apply: async (id) => {
      const result = await client.terminate(id, { ...readAudit(call), tree });
      if (!result.found) throw notFound(id);
      return result;
    },
    text: ({ status, changed }) => (changed ? `${status}` : `${status} already`),
  });
}
