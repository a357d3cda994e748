import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Panel } from '../../components/panel.tsx';
import { Empty, LoadState } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { Row, Table, type TableColumn } from '../../components/table.tsx';
import { Ago, Moment } from '../../components/text.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { instanceHref } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { tell, tellError } from '../../state/toasts.ts';
import { formatBytes, formatDuration, formatNumber, plural } from '../../words/format.ts';

type Policy = NonNullable<ResponseBody<'getRetention'>['policies']>[number];
type AuditAction = ResponseBody<'listAudit'>['items'][number]['action'];
type Report = NonNullable<ResponseBody<'getRetention'>['lastReport']>;

/** A record, so that the compiler finds an action that is missing here. */
const actionNames: Readonly<Record<AuditAction, true>> = {
  cancel: true,
  cancelBulk: true,
  terminate: true,
  terminateBulk: true,
  raiseEventBulk: true,
  retry: true,
  retryBulk: true,
  fork: true,
  pause: true,
  pauseBulk: true,
  resume: true,
  resumeBulk: true,
  delete: true,
  deleteBulk: true,
  prune: true,
  pruneBulk: true,
  retention: true,
  retentionPause: true,
  retentionResume: true,
  schedulePut: true,
  schedulePause: true,
  scheduleResume: true,
  scheduleDelete: true,
  trigger: true,
  backfill: true,
  sessionShutdown: true,
  limitsSet: true,
  limitsReset: true,
};
const auditActions = Object.keys(actionNames) as readonly AuditAction[];
const policyColumns: readonly TableColumn[] = [
  { title: 'Applies to' },
  { title: 'Statuses', width: '30%' },
  { title: 'Kept for', width: '16%', isNumber: true },
  { title: 'Executions kept', width: '18%', isNumber: true },
];
const auditColumns: readonly TableColumn[] = [
  { title: 'Action', width: '13%' },
  { title: 'Time', width: '13%', small: 'side' },
  { title: 'Actor', width: '16%', small: 'untitled' },
  { title: 'On', width: '24%', small: 'untitled' },
  { title: 'Changed', width: '9%', isNumber: true },
  { title: 'Reason', small: 'untitled' },
];

/** What is kept for how long, and who did what. */
export function Retention(): JSX.Element {
  return (
    <>
      <TopBar title="Retention and audit" />
      <div class="wrap">
        <RetentionPanel />
        {may('admin') ? (
          <Audit />
        ) : (
          <Panel title="Audit" class="gap-top">
            <p class="panel-p dim">The audit is shown to admins.</p>
          </Panel>
        )}
      </div>
    </>
  );
}

function RetentionPanel(): JSX.Element {
  const status = useResource('retention', (signal) => call('getRetention', {}, signal), {
    everyMs: 5_000,
  });
  const system = useResource('system', (signal) => call('systemMetrics', {}, signal), {
    everyMs: 10_000,
  });
  const act = async (problem: string, done: string, run: () => Promise<unknown>): Promise<void> => {
    try {
      await run();
      tell(done);
      status.reload();
    } catch (error) {
      tellError(problem, error);
    }
  };
  const data = status.data.value;
  const size = system.data.value;
  const report = data?.lastReport;
  return (
    <Panel
      title="Retention"
      right={
        may('admin') &&
        data !== undefined && (
          <>
            <Button
              small
              disabled={data.policies === null || data.policies.length === 0}
              onClick={() =>
                void act('The sweep did not start', 'The sweep is done.', () =>
                  call('runRetention', { body: {} }),
                )
              }
            >
              Sweep now
            </Button>
            {data.paused === null ? (
              <Button
                small
                onClick={() =>
                  void act('Retention was not paused', 'Retention is paused.', () =>
                    call('pauseRetention', { body: {} }),
                  )
                }
              >
                Pause
              </Button>
            ) : (
              <Button
                small
                onClick={() =>
                  void act('Retention was not resumed', 'Retention is resumed.', () =>
                    call('resumeRetention', { body: {} }),
                  )
                }
              >
                Resume
              </Button>
            )}
          </>
        )
      }
    >
      <LoadState of={status} rows={3} />
      {data !== undefined && (
        <>
          <div class="facts">
            <div>
              <span class="dim">State</span>
              {data.paused !== null ? (
                <Status tone="paused" />
              ) : (
                <Status tone="completed" text="Active" />
              )}
            </div>
            {size !== undefined && (
              <>
                <div>
                  <span class="dim">Store</span>
                  <b>{formatBytes(size.storageBytes)}</b>
                </div>
                <div>
                  <span class="dim">Can be reclaimed</span>
                  <b>{formatBytes(size.reclaimableBytes)}</b>
                </div>
                <div>
                  <span class="dim">Finished executions</span>
                  <b>{formatNumber(size.finishedExecutions)}</b>
                </div>
              </>
            )}
          </div>
          {data.policies === null || data.policies.length === 0 ? (
            <Empty icon="archive" title="Everything is kept forever.">
              Without a policy the store only grows. Set one where the store is opened:
              <pre class="code">{`retention: [{ statuses: 'completed', keepFor: '30d' }]`}</pre>
            </Empty>
          ) : (
            <Table label="Policies" columns={policyColumns}>
              {data.policies.map((policy, index) => (
                <Row
                  key={index}
                  cells={[
                    <bdi title={appliesTo(policy)}>{appliesTo(policy)}</bdi>,
                    'keepFor' in policy && (
                      <span class="sec">{listOf(policy.statuses) || 'all ended'}</span>
                    ),
                    'keepFor' in policy && durationOf(policy.keepFor),
                    'keepExecutions' in policy && String(policy.keepExecutions),
                  ]}
                />
              ))}
            </Table>
          )}
          {report != null && (
            <p class="panel-p dim">
              <LastReport report={report} />
            </p>
          )}
        </>
      )}
    </Panel>
  );
}

function LastReport({ report }: { readonly report: Report }): JSX.Element {
  return (
    <>
      Last sweep <Ago at={report.endedAt} />: {formatNumber(report.deleted.instancesDeleted)}{' '}
      instances and {formatNumber(report.pruned.executionsDeleted)} executions deleted
      {report.outcome === 'done' ? '.' : `, ended early: ${report.outcome}.`}
      {report.left > 0 &&
        ` ${formatNumber(report.left)} were left because a descendant has not ended.`}
      {report.errors.length > 0 && <bdi> {report.errors[0]}</bdi>}
    </>
  );
}

function appliesTo(policy: Policy): string {
  const parts = [listOf(policy.names) || 'every name'];
  const tags = 'tags' in policy ? policy.tags : undefined;
  if (tags !== undefined) {
    parts.push(
      Object.entries(tags)
        .map(([key, value]) => `${key}=${String(value)}`)
        .join(', '),
    );
  }
  return parts.join(', ');
}

function listOf(value: string | readonly string[] | undefined): string {
  return value === undefined ? '' : typeof value === 'string' ? value : value.join(', ');
}

function durationOf(value: number | string | undefined): string {
  if (value === undefined) return '';
  return typeof value === 'number' ? formatDuration(value) : value;
}

/** What an action was about, from its stored filter, which has the values of few fields only. */
function targetText(filter: string): string {
  let fields: Readonly<Record<string, unknown>>;
  try {
    fields = JSON.parse(filter) as typeof fields;
  } catch {
    return filter;
  }
  const { schedule, definition, instanceIds } = fields;
  if (typeof schedule === 'string') return schedule;
  if (typeof instanceIds === 'number') return plural(instanceIds, 'chosen instance');
  const { name } = (definition ?? {}) as { readonly name?: unknown };
  if (typeof name === 'string') return name;
  const conditions = Object.keys(fields).filter((key) => key !== 'force');
  return conditions.length === 0 ? 'All instances' : `All that match: ${conditions.join(', ')}`;
}

/** What operators did, the newest first. */
function Audit(): JSX.Element {
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined]);
  const [action, setAction] = useState<AuditAction | ''>('');
  const cursor = cursors.at(-1);
  const page = useResource(
    `audit ${cursor ?? ''} ${action}`,
    (signal) =>
      call(
        'listAudit',
        {
          query: {
            limit: 50,
            ...(cursor !== undefined && { cursor }),
            ...(action !== '' && { action: [action] }),
          },
        },
        signal,
      ),
    { ...(cursor === undefined && { everyMs: 5_000 }) },
  );
  const data = page.data.value;
  return (
    <Panel
      title="Audit"
      class="gap-top"
      right={
        <>
          <label class="inline-field">
            <span class="sr">Action</span>
            <select
              class="input s"
              value={action}
              onChange={(event) => {
                setAction(event.currentTarget.value as AuditAction | '');
                setCursors([undefined]);
              }}
            >
              <option value="">All actions</option>
              {auditActions.map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          </label>
          {cursors.length > 1 && (
            <Button
              small
              look="ghost"
              icon="chevronLeft"
              label="Newer"
              onClick={() => setCursors(cursors.slice(0, -1))}
            />
          )}
          {data?.nextCursor !== undefined && (
            <Button
              small
              look="ghost"
              icon="chevronRight"
              label="Older"
              onClick={() => setCursors([...cursors, data.nextCursor])}
            />
          )}
        </>
      }
    >
      <LoadState of={page} rows={4} />
      {data?.items.length === 0 && (
        <p class="panel-p dim">
          Nothing yet. Each action of an operator is recorded with its actor and reason.
        </p>
      )}
      {data !== undefined && data.items.length > 0 && (
        <Table label="Audit" columns={auditColumns}>
          {data.items.map((entry) => (
            <Row
              key={entry.auditKey}
              cells={[
                <code>{entry.action}</code>,
                <span class="sec">
                  <Moment at={entry.at} />
                </span>,
                entry.actor != null && <bdi>{entry.actor}</bdi>,
                entry.instanceId !== null ? (
                  <a class="link" href={instanceHref(entry.instanceId)} title={entry.instanceId}>
                    <bdi class="mono">{entry.instanceId}</bdi>
                  </a>
                ) : (
                  entry.filter !== '' && (
                    <bdi class="sec" title={entry.filter}>
                      {targetText(entry.filter)}
                    </bdi>
                  )
                ),
                formatNumber(entry.instances),
                entry.reason != null && entry.reason !== '' && (
                  <bdi class="sec" title={entry.reason}>
                    {entry.reason}
                  </bdi>
                ),
              ]}
            />
          ))}
        </Table>
      )}
    </Panel>
  );
}
