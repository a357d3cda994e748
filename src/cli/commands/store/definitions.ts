import type { DefinitionInfo } from '../../../client/reading/instance-counts.ts';
import type { InstanceStatus } from '../../../model/status.ts';
import type { Call, ExitCode } from '../../command.ts';
import { formatCount } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { writeTable } from '../../text/table.ts';

/** Lists the tasks that have runs. */
export function tasks(call: Call): Promise<ExitCode> {
  return list(call, 'task');
}

/** Lists the flows that have runs. */
export function flows(call: Call): Promise<ExitCode> {
  return list(call, 'flow');
}

async function list(call: Call, kind: 'task' | 'flow'): Promise<ExitCode> {
  const { terminal, json } = call;
  const { client } = await call.open();
  const items = (await client.definitions()).filter((one) => one.kind === kind);
  if (json) {
    writeJson(terminal.stdout, { items });
    return 0;
  }
  if (items.length === 0) {
    terminal.stderr.write(`No ${kind} has runs yet.\n`);
    return 0;
  }
  const count = (...statuses: readonly InstanceStatus[]) => ({
    value: ({ counts }: DefinitionInfo): string => {
      const given = statuses.flatMap((status) => counts[status] ?? []);
      const sum = given.reduce((total, one) => total + one.count, 0);
      return `${formatCount(sum)}${given.some(({ capped }) => capped) ? '+' : ''}`;
    },
    align: 'right' as const,
  });
  writeTable(terminal.stdout, items, [
    { title: 'NAME', value: ({ name }: DefinitionInfo) => name, min: 10 },
    { title: 'PENDING', ...count('pending'), drop: 4 },
    { title: 'RUNNING', ...count('running', 'canceling') },
    { title: 'COMPLETED', ...count('completed'), drop: 3 },
    { title: 'FAILED', ...count('failed'), drop: 1 },
    { title: 'OTHER', ...count('canceled', 'terminated', 'skipped', 'expired'), drop: 5 },
  ]);
  return 0;
}
