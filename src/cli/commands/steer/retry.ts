import { readAudit } from '../../audit-options.ts';
import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { countOf } from '../../text/format.ts';
import { isBulk, runBulk } from './bulk-run.ts';
import { forEachInstance } from './each-instance.ts';

/** Runs ended instances again. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, operands } = call;
  const from = (options.text('from') ?? 'failure') as 'failure' | 'start';
  const bulk = isBulk(call);
  if (bulk && options.has('input')) throw usage('--input needs an id, not a filter.');
  const input = await options.json('input');
  const { client } = await call.open();
  if (bulk) {
    return runBulk(call, {
      verb: 'retry',
      doing: 'retrying',
      done: 'retried',
      defaults: { status: ['failed', 'canceled', 'terminated', 'expired'], rootsOnly: true },
      run: (filter, given) => client.bulk.retry(filter, { ...given, from }),
    });
  }
  return forEachInstance(call, operands, {
    apply: (id) => client.retry(id, { ...readAudit(call), from, input }),
    text: ({ executionId, keptEvents }) =>
      `retried as execution ${executionId}, ${countOf(keptEvents, 'event')} kept`,
  });
}
