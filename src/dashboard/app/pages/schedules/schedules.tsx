import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Panel } from '../../components/panel.tsx';
import { Empty, LoadState, Problem } from '../../components/states.tsx';
import { SidePanel } from '../../components/side-panel.tsx';
import { Status } from '../../components/status.tsx';
import { Row, Table, type TableColumn } from '../../components/table.tsx';
import { Ago, Moment, Until } from '../../components/text.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { now } from '../../state/clock.ts';
import { instanceHref, query, setQuery } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { tell, tellError } from '../../state/toasts.ts';
import { formatDuration, plural } from '../../words/format.ts';

type Schedule = ResponseBody<'listSchedules'>['items'][number];
const lateMs = 60_000;
const columns: readonly TableColumn[] = [
  { title: 'Schedule', width: '22%' },
  { title: 'State', width: '15%', small: 'side' },
  { title: 'When', small: 'untitled' },
  { title: 'Starts', width: '18%', small: 'hidden' },
  { title: 'Next', width: '14%' },
  { title: 'Last run', width: '12%' },
];

/** The schedules: what they start, when next, and how the last runs ended. */
export function Schedules(): JSX.Element {
  const page = useResource(
    'schedules',
    (signal) => call('listSchedules', { query: { limit: 500 } }, signal),
    {
      everyMs: 3_000,
    },
  );
  const items = page.data.value?.items;
  const chosen = items?.find(({ name }) => name === query.value.get('schedule'));
  return (
    <>
      <TopBar title="Schedules" />
      <div class={chosen === undefined ? '' : 'split'}>
        <div class="wrap">
          <LoadState of={page} />
          {items?.length === 0 && (
            <Empty icon="clock" title="No schedules yet.">
              A schedule starts a task or an orchestration by a cron expression or an interval:
              <pre class="code">{`await perdure.client.schedules.create('nightly', { cron: '0 3 * * *', task: settle });`}</pre>
            </Empty>
          )}
          {items !== undefined && items.length > 0 && (
            <Panel>
              <Table label="Schedules" columns={columns}>
                {items.map((schedule) => (
                  <Row
                    key={schedule.name}
                    isSelected={schedule === chosen}
                    cells={[
                      <button
                        type="button"
                        class="plain-link link cut"
                        title={schedule.name}
                        aria-expanded={schedule === chosen}
                        onClick={() => setQuery({ schedule: schedule.name }, { replace: true })}
                      >
                        <bdi>{schedule.name}</bdi>
                      </button>,
                      <ScheduleState schedule={schedule} />,
                      <code title={timing(schedule)}>
                        <bdi>{timing(schedule)}</bdi>
                      </code>,
                      <bdi class="sec">{schedule.definition?.starts.name ?? ''}</bdi>,
                      schedule.nextAt !== undefined && !schedule.paused && (
                        <Until at={schedule.nextAt} />
                      ),
                      schedule.lastTickAt === undefined ? (
                        <span class="dim">never</span>
                      ) : (
                        <Ago at={schedule.lastTickAt} />
                      ),
                    ]}
                  />
                ))}
              </Table>
            </Panel>
          )}
        </div>
        {chosen !== undefined && (
          <SchedulePanel key={chosen.name} schedule={chosen} reload={() => page.reload()} />
        )}
      </div>
    </>
  );
}

function ScheduleState({ schedule }: { readonly schedule: Schedule }): JSX.Element {
  if (schedule.paused) return <Status tone="paused" />;
  if (schedule.lastError !== undefined)
    return <Status tone="failed" isProblem text="Last tick failed" />;
  if (schedule.nextAt !== undefined && now.value - schedule.nextAt > lateMs) {
    return (
      <Status
        tone="retrying"
        isProblem
        text={`${formatDuration(Math.floor((now.value - schedule.nextAt) / 60_000) * 60_000)} late`}
      />
    );
  }
  if (schedule.nextAt === undefined) return <Status tone="completed" text="Over" />;
  return <Status tone="running" text="Active" />;
}

function timing({ definition }: Schedule): string {
  if (definition === undefined) return '';
  if (definition.cron !== undefined) {
    return definition.timeZone === undefined
      ? definition.cron
      : `${definition.cron} ${definition.timeZone}`;
  }
  return definition.everyMs === undefined ? '' : `every ${formatDuration(definition.everyMs)}`;
}

function SchedulePanel({
  schedule,
  reload,
}: {
  readonly schedule: Schedule;
  readonly reload: () => void;
}): JSX.Element {
  const { name, definition } = schedule;
  const details = useResource(
    `schedule ${name} ${schedule.lastTickAt ?? 0} ${schedule.updatedAt}`,
    async (signal) => {
      const [next, info] = await Promise.all([
        call('nextRuns', { params: { name }, query: { count: 10 } }, signal),
        call('getSchedule', { params: { name } }, signal),
      ]);
      return { next: next.ticks, runs: info.lastRuns ?? [] };
    },
    { everyMs: 3_000 },
  );
  const act = async (words: string, done: string, run: () => Promise<unknown>): Promise<void> => {
    try {
      await run();
      tell(done);
      reload();
      details.reload();
    } catch (error) {
      tellError(words, error);
    }
  };
  const data = details.data.value;
  return (
    <SidePanel
      label={`Schedule ${name}`}
      title={name}
      status={<ScheduleState schedule={schedule} />}
      onClose={() => setQuery({ schedule: undefined }, { replace: true })}
    >
      {may('operate') && (
        <div class="sect acts-row">
          <Button
            small
            onClick={() =>
              void act('The schedule was not triggered', `${name} was triggered.`, () =>
                call('triggerSchedule', { params: { name }, body: {} }),
              )
            }
          >
            Trigger now
          </Button>
          {schedule.paused ? (
            <Button
              small
              onClick={() =>
                void act('The schedule was not resumed', `${name} was resumed.`, () =>
                  call('resumeSchedule', { params: { name }, body: {} }),
                )
              }
            >
              Resume
            </Button>
          ) : (
            <Button
              small
              onClick={() =>
                void act('The schedule was not paused', `${name} was paused.`, () =>
                  call('pauseSchedule', { params: { name }, body: {} }),
                )
              }
            >
              Pause
            </Button>
          )}
        </div>
      )}
      <div class="sect">
        <dl class="kv">
          <dt>When</dt>
          <dd>
            <code>
              <bdi>{timing(schedule)}</bdi>
            </code>
          </dd>
          {definition !== undefined && (
            <>
              <dt>Starts</dt>
              <dd>
                {definition.starts.kind} <bdi>{definition.starts.name}</bdi>
              </dd>
              <dt>Overlap</dt>
              <dd>
                <code>{definition.overlap ?? 'allow'}</code>
              </dd>
              <dt>Catch up</dt>
              <dd>
                <code>{definition.catchUp}</code>
              </dd>
              {definition.jitterMs !== undefined && (
                <>
                  <dt>Jitter</dt>
                  <dd>up to {formatDuration(definition.jitterMs)}</dd>
                </>
              )}
            </>
          )}
          {schedule.skippedTicks !== undefined && schedule.skippedTicks > 0 && (
            <>
              <dt>Skipped</dt>
              <dd>{plural(schedule.skippedTicks, 'tick')}, because a run had not ended</dd>
            </>
          )}
          {schedule.lastError !== undefined && (
            <>
              <dt>Last error</dt>
              <dd class="bad">
                <bdi>{schedule.lastError}</bdi>
              </dd>
            </>
          )}
        </dl>
      </div>
      {details.error.value !== undefined && (
        <Problem error={details.error.value} retry={() => details.reload()} />
      )}
      {data !== undefined && (
        <>
          <div class="sect">
            <h3>Next</h3>
            {data.next.length === 0 && <p class="dim">No more ticks.</p>}
            <ol class="names">
              {data.next.map(({ tickAt, firesAt }) => (
                <li key={tickAt}>
                  <Moment at={firesAt} />{' '}
                  <span class="dim">
                    <Until at={firesAt} />
                  </span>
                </li>
              ))}
            </ol>
          </div>
          <div class="sect">
            <h3>Last runs</h3>
            {data.runs.length === 0 && <p class="dim">None yet.</p>}
            <ul class="waits">
              {data.runs.map((run) => (
                <li key={run.id} class="run-line">
                  <Status tone={run.status} />
                  <a class="link cut" href={instanceHref(run.id)}>
                    <bdi class="mono">{run.id}</bdi>
                  </a>
                  <span class="dim">
                    <Ago at={run.createdAt} />
                  </span>
                </li>
              ))}
            </ul>
          </div>
        </>
      )}
    </SidePanel>
  );
}
