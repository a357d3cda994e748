import type { TreeNode } from '../../../client/reading/instance-tree-page.ts';
import type { Call, ExitCode } from '../../command.ts';
import { clean, formatAge } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { statusStyle } from '../../text/status-style.ts';
import { writeTable } from '../../text/table.ts';

/** Shows an instance and its descendants. */
export async function run(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const [id = ''] = call.operands;
  const { client } = await call.open();
  const page = await client.tree(id, {
    limit: options.number('limit'),
    cursor: options.text('cursor'),
    depth: options.number('depth'),
  });
  if (json) {
    writeJson(stdout, page);
    return 0;
  }
  const nowMs = Date.now();
  writeTable(stdout, page.items, [
    { title: 'ID', value: ({ id, depth }: TreeNode) => `${'  '.repeat(depth)}${id}` },
    { title: 'NAME', value: ({ name }) => name, min: 8, drop: 1 },
    { title: 'STATUS', value: ({ status }) => status, style: ({ status }) => statusStyle(status) },
    {
      title: 'AGE',
      value: ({ createdAt }) => formatAge(createdAt, nowMs).replace(' ago', ''),
      align: 'right',
      drop: 2,
    },
  ]);
  if (page.nextCursor !== undefined) {
    stderr.write(`There are more instances. Continue with --cursor ${clean(page.nextCursor)}.\n`);
  }
  return 0;
}
