import type { PendingWork } from '../../../client/reading/inspect-instance.ts';
import type { InstanceInfo } from '../../../client/reading/instance-info.ts';
import { notFound } from '../../../model/failures/errors.ts';
import type { Call, ExitCode, Output } from '../../command.ts';
import { definitionText, inputOf, isFlowRun } from '../../text/definition-text.ts';
import { hint } from '../../hint.ts';
import { clean, cut, formatAge, formatDuration, formatTime } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { idArgument } from '../../text/shell-line.ts';
import { statusStyle } from '../../text/status-style.ts';
import { writeFields } from '../../text/table.ts';

const maxPayload = 2_000;

/** Shows an instance with its payloads and its pending work. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const [id = ''] = call.operands;
  const { client } = await call.open();
  const info = await client.get(id);
  if (info === undefined) throw notFound(id);
  if (json) {
    writeJson(terminal.stdout, info);
    return 0;
  }
  const why = info.endedAt === undefined ? (await client.why(id)).short : undefined;
  writeInstance(terminal.stdout, info, why);
  if (why !== undefined)
    hint(call, `Run \`perdure why ${idArgument(id)}\` for the whole explanation.`);
  return 0;
}

function writeInstance(output: Output, info: InstanceInfo, why: string | undefined): void {
  const nowMs = Date.now();
  const at = (time: number | undefined): string | undefined =>
    time === undefined ? undefined : `${formatTime(time)} (${formatAge(time, nowMs)})`;
  const { blocked, paused, cancel, terminated, failure, forkedFrom, task } = info;
  output.write(
    `${output.style('bold', clean(info.id))}  ${output.style(statusStyle(info.status) ?? 'bold', info.status)}\n`,
  );
  writeFields(output, [
    ['name', definitionText(info)],
    ['kind', isFlowRun(info) ? 'flow' : info.kind],
    ['execution', info.executionId > 1 ? String(info.executionId) : undefined],
    ['parent', info.parentId],
    ['forked from', forkedFrom && `${forkedFrom.id}, event ${forkedFrom.eventId}`],
    ['created', at(info.createdAt)],
    ['starts', info.startedAt === undefined ? at(info.runAt) : undefined],
    ['started', at(info.startedAt)],
    ['ended', at(info.endedAt)],
    [
      'took',
      info.endedAt === undefined
        ? undefined
        : formatDuration(info.endedAt - (info.startedAt ?? info.createdAt)),
    ],
    ['tags', pairs(info.tags)],
    ['priority', task && task.priority > 0 ? String(task.priority) : undefined],
    ['dedupe key', task?.dedupeKey],
    ['blocked', blocked && `${blocked.reason} (${formatAge(blocked.at, nowMs)})`],
    ['paused', paused && withActor(paused.reason ?? 'paused', paused.actor)],
    [cancel?.trigger ?? 'cancel', cancel && withActor(cancel.reason, cancel.actor)],
    ['terminated', terminated && withActor(terminated.reason, terminated.actor)],
    ['leaked', info.leaked === undefined ? undefined : `${info.leaked} handlers`],
    ['input', payload(inputOf(info))],
    ['output', payload(info.output)],
    ['failure', failure && describeFailure(failure)],
    ['status', payload(info.customStatus)],
    ['undecodable', info.undecodable?.join(', ')],
    ['pending', info.pending?.map(describeWork).join('\n')],
    ['why', why],
  ]);
}

function describeWork({ name, state, attempt, maxAttempts, worker }: PendingWork): string {
  const attempts = maxAttempts === undefined ? `${attempt}` : `${attempt} of ${maxAttempts}`;
  return `${name}: ${state}, attempt ${attempts}${worker === undefined ? '' : ` on ${worker}`}`;
}

/** The error with its causes, and the stack frames of the innermost cause: those of the outer ones belong to Perdure. */
function describeFailure(failure: NonNullable<InstanceInfo['failure']>): string {
  const lines: string[] = [];
  let innermost = failure;
  for (let one: typeof failure | undefined = failure; one !== undefined; one = one.cause) {
    const { name, message, code } = one;
    const title = `${name}: ${message}${code === undefined ? '' : ` (${code})`}`;
    lines.push(one === failure ? title : `caused by ${title}`);
    innermost = one;
  }
  // The stack repeats the title in its first line.
  const frames = innermost.stack?.split('\n').filter((line) => /^\s+at /.test(line)) ?? [];
  return [...lines, ...frames.slice(0, 5)].join('\n');
}

function withActor(reason: string, actor: string | null | undefined): string {
  return actor === null || actor === undefined ? reason : `${reason} (${actor})`;
}

function pairs(values: Readonly<Record<string, string>> | undefined): string {
  return Object.entries(values ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(' ');
}

function payload(value: unknown): string | undefined {
  return value === undefined ? undefined : cut(JSON.stringify(value), maxPayload);
}
