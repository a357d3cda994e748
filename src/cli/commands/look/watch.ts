import type { ClientSurface } from '../../../client/client.ts';
import { isTerminal, type InstanceStatus } from '../../../model/status.ts';
import { notFound } from '../../../model/failures/errors.ts';
import { usage } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import { describeEvent } from '../../text/describe-event.ts';
import { clean, cut, formatTime } from '../../text/format.ts';
import { writeJsonLine } from '../../text/json.ts';
import { statusStyle } from '../../text/status-style.ts';
import { reportEnd } from './result.ts';

/** Follows the events of one instance, or the states of several, until they have ended. */
export async function run(call: Call): Promise<ExitCode> {
  const { client } = await call.open();
  const [id = '', ...others] = call.operands;
  if (others.length > 0) return watchStates(client, call.operands, call);
  const info = await client.get(id);
  return info?.kind === 'task' ? watchTask(client, id, call) : watchEvents(client, id, call);
}

/** Follows the states of a task run, which has no events. */
async function watchTask(client: ClientSurface, id: string, call: Call): Promise<ExitCode> {
  if (call.options.has('after'))
    throw usage('--after is for orchestrations: tasks have no events.');
  const code = await watchStates(client, [id], call);
  const info = code === 7 && !call.json ? await client.get(id) : undefined;
  if (info !== undefined) reportEnd(call.terminal, info);
  return code;
}

const shownPayloadBytes = 200;

async function watchEvents(client: ClientSurface, id: string, call: Call): Promise<ExitCode> {
  const { terminal, json, options } = call;
  const { stdout } = terminal;
  const { interrupted: signal } = terminal;
  const payloads = json
    ? ({ payloads: 'full' } as const)
    : ({ payloads: 'head', headBytes: shownPayloadBytes } as const);
  const events = client.watchHistory(id, { after: options.text('after'), signal, ...payloads });
  for await (const entry of events) {
    if (json) {
      writeJsonLine(stdout, entry);
    } else {
      const { event, position } = entry;
      const line = `${position.padEnd(6)} ${formatTime(event.at)}  ${event.kind}  ${clean(describeEvent(event))}`;
      stdout.write(`${cut(line.trimEnd(), stdout.columns)}\n`);
    }
  }
  const info = await client.get(id);
  if (info === undefined) throw notFound(id);
  if (info.status === 'completed') return 0;
  if (!json) reportEnd(terminal, info);
  return 7;
}

async function watchStates(
  client: ClientSurface,
  ids: readonly string[],
  call: Call,
): Promise<ExitCode> {
  const { terminal, json } = call;
  const { stdout } = terminal;
  const states = new Map<string, InstanceStatus | null>();
  for await (const change of client.watch(ids, { signal: terminal.interrupted })) {
    const isNew = states.get(change.id) !== change.status;
    states.set(change.id, change.status);
    if (json) writeJsonLine(stdout, change);
    else if (isNew) {
      const status = change.status ?? 'not found';
      stdout.write(`${clean(change.id)}  ${stdout.style(statusStyle(status) ?? 'bold', status)}\n`);
    }
    const isEnded = (status: InstanceStatus | null) => status === null || isTerminal(status);
    if (states.size === new Set(ids).size && [...states.values()].every(isEnded)) break;
  }
  const all = [...states.values()];
  if (all.includes(null)) return 3;
  return all.every((status) => status === 'completed') ? 0 : 7;
}
