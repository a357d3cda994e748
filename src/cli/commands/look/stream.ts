import type { StreamEntry } from '../../../client/watching/stream-reader.ts';
import type { Call, ExitCode } from '../../command.ts';
import { clean, cut, formatTime } from '../../text/format.ts';
import { writeJsonLine } from '../../text/json.ts';

/** Follows the chunks of a run until it has ended. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json, options } = call;
  const { stdout, interrupted: signal } = terminal;
  const { client } = await call.open();
  const [id = ''] = call.operands;
  const isRaw = options.flag('raw');
  for await (const entry of client.stream(id, { after: options.text('after'), signal })) {
    if (json) writeJsonLine(stdout, entry);
    else if (isRaw) stdout.write(stdout.isTTY ? cleanLines(toRaw(entry)) : toRaw(entry));
    else stdout.write(`${cut(describe(entry), stdout.columns)}\n`);
  }
  return 0;
}

// Text is joined as it was emitted: the tokens of a model form its answer.
function toRaw(entry: StreamEntry): string {
  if (entry.kind === 'dropped') return '';
  const { value } = entry;
  return typeof value === 'string' ? value : `${JSON.stringify(value)}\n`;
}

// Line breaks stay, and other control characters must not reach a terminal.
function cleanLines(text: string): string {
  return text.split('\n').map(clean).join('\n');
}

function describe(entry: StreamEntry): string {
  if (entry.kind === 'dropped') return `${entry.cursor}  ${entry.count} chunks were dropped`;
  const { cursor, at, source, value } = entry;
  const { handler } = source;
  const from = handler === undefined ? 'orchestration' : `${handler.name} #${handler.attempt}`;
  return `${cursor}  ${formatTime(at)}  ${clean(from)}  ${clean(JSON.stringify(value))}`;
}
