import type { JobInfo, SessionInfo } from '../../../jobs/session-info.ts';
import type { SessionState } from '../../../providers/contract/sessions.ts';
import { readAudit } from '../../audit-options.ts';
import type { Call, ExitCode } from '../../command.ts';
import { clean, countOf, formatAge } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { statusStyle } from '../../text/status-style.ts';
import { writeFields, writeTable } from '../../text/table.ts';

/** Lists sessions, newest first. */
export async function list(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const states = options.list('state') as readonly SessionState[];
  const { client } = await call.open();
  const page = await client.sessions.list(
    { label: options.text('label'), ...(states.length > 0 && { state: states }) },
    { limit: options.number('limit'), after: options.text('after') },
  );
  if (json) {
    writeJson(stdout, page);
    return 0;
  }
  if (page.items.length === 0) stderr.write('No sessions match.\n');
  else {
    const nowMs = Date.now();
    writeTable(stdout, page.items, [
      { title: 'ID', value: ({ id }: SessionInfo) => id },
      { title: 'LABEL', value: ({ label }) => label ?? '', min: 6, drop: 1 },
      { title: 'STATE', value: ({ state }) => state },
      { title: 'JOBS', value: ({ openJobs }) => String(openJobs), align: 'right', drop: 2 },
      { title: 'OWNER', value: ({ owner }) => owner ?? '', min: 6, drop: 4 },
      {
        title: 'AGE',
        value: ({ createdAt }) => formatAge(createdAt, nowMs).replace(' ago', ''),
        align: 'right',
        drop: 3,
      },
    ]);
  }
  if (page.nextAfter !== undefined) {
    stderr.write(`There are more sessions. Continue with --after ${clean(page.nextAfter)}.\n`);
  }
  return 0;
}

/** Shows a session with its jobs. */
export async function show(call: Call): Promise<ExitCode> {
  const { terminal, json } = call;
  const { stdout } = terminal;
  const [reference = ''] = call.operands;
  const { client } = await call.open();
  const session = await client.sessions.get(reference);
  const { items: jobs } = await client.sessions.jobs(session.id);
  if (json) {
    writeJson(stdout, { ...session, jobs });
    return 0;
  }
  const nowMs = Date.now();
  const { endedAt, variables } = session;
  writeFields(stdout, [
    ['id', session.id],
    ['label', session.label],
    ['state', session.state],
    ['owner', session.owner],
    ['created', formatAge(session.createdAt, nowMs)],
    ['lease', endedAt === undefined ? `expires ${formatAge(session.expiresAt, nowMs)}` : undefined],
    ['ended', endedAt === undefined ? undefined : formatAge(endedAt, nowMs)],
    [
      'variables',
      Object.entries(variables)
        .map(([key, value]) => `${key}=${value}`)
        .join(' '),
    ],
    ['jobs', countOf(session.openJobs, 'open job')],
  ]);
  if (jobs.length > 0) {
    writeTable(stdout, jobs, [
      { title: 'JOB', value: ({ id }: JobInfo) => id },
      { title: 'NAME', value: ({ name }) => name, min: 8, drop: 1 },
      {
        title: 'STATUS',
        value: ({ status }) => status,
        style: ({ status }) => statusStyle(status),
      },
    ]);
  }
  return 0;
}

/** Shuts a session down by its id or label, and waits for its end. */
export async function shutdown(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const [reference = ''] = call.operands;
  const mode = (options.text('mode') ?? 'graceful') as 'graceful' | 'forceful';
  const { client } = await call.open();
  const { id, openJobs } = await client.sessions.get(reference);
  if (mode === 'forceful' && openJobs > 0 && !options.flag('yes')) {
    await terminal.confirm(`Cancel ${countOf(openJobs, 'job')}`, { count: openJobs });
  }
  await client.sessions.shutdown(id, mode, readAudit(call));
  if (json) writeJson(terminal.stdout, { id, mode, state: 'ended' });
  else terminal.stdout.write(`${clean(id)}  ended\n`);
  return 0;
}
