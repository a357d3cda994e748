import { notFound } from '../../../model/failures/errors.ts';
import { readAudit } from '../../audit-options.ts';
import type { Call, ExitCode } from '../../command.ts';
import { hint } from '../../hint.ts';
import { idArgument } from '../../text/shell-line.ts';
import { isBulk, runBulk } from './bulk-run.ts';
import { forEachInstance } from './each-instance.ts';

/** Asks instances to stop. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, operands } = call;
  const cleanupTimeout = options.text('cleanup-timeout');
  const bulk = isBulk(call);
  const { client } = await call.open();
  if (bulk) {
    return runBulk(call, {
      verb: 'cancel',
      doing: 'canceling',
      done: 'canceled or canceling',
      defaults: { status: ['pending', 'running', 'canceling'] },
      run: (filter, given) => client.bulk.cancel(filter, { ...given, cleanupTimeout }),
    });
  }
  const wait = options.flag('wait');
  const code = await forEachInstance(call, operands, {
    apply: async (id) => {
      const result = await client.cancel(id, { ...readAudit(call), cleanupTimeout, wait });
      if (!result.found) throw notFound(id);
      return result;
    },
    text: ({ status, changed }) => (changed ? `${status}` : `${status} already`),
  });
  if (!wait && code === 0) {
    hint(
      call,
      `Run \`perdure why ${idArgument(operands[0] ?? '')}\` to see what a cancel waits for.`,
    );
  }
  return code;
}
