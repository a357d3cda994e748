import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Meter, Panel } from '../../components/panel.tsx';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { now } from '../../state/clock.ts';
import { href } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { tell, tellError } from '../../state/toasts.ts';
import { formatAge, formatNumber } from '../../words/format.ts';

type Queue = ResponseBody<'listQueues'>['items'][number];

const oldMs = 60_000;
const titles: Readonly<Record<Queue['kind'], string>> = {
  task: 'Tasks',
  activity: 'Activities',
  orchestration: 'Orchestrations',
};

/** What waits, how long, and who can run it. */
export function Queues(): JSX.Element {
  const queues = useResource('queues', (signal) => call('listQueues', {}, signal), {
    everyMs: 2_000,
  });
  const totals = useResource('queue totals', (signal) => call('queueDepths', {}, signal), {
    everyMs: 2_000,
  });
  const items = queues.data.value?.items;
  const depths = totals.data.value;
  return (
    <>
      <TopBar title="Tasks and queues" />
      <div class="wrap">
        {queues.error.value !== undefined && (
          <Problem error={queues.error.value} retry={() => queues.reload()} />
        )}
        {items === undefined && queues.error.value === undefined && <Loading />}
        {depths !== undefined && (
          <div class="facts panel gap-bottom">
            {(['orchestrations', 'activities', 'tasks'] as const).map((kind) => (
              <div key={kind}>
                <span class="dim">
                  {{ orchestrations: 'Turns', activities: 'Activities', tasks: 'Task runs' }[kind]}
                </span>
                <b>{formatNumber(depths[kind].ready)}</b>
                <span class="dim">
                  {formatNumber(depths[kind].claimed)} at work, {formatNumber(depths[kind].delayed)}{' '}
                  later
                </span>
              </div>
            ))}
            <div>
              <span class="dim">Messages</span>
              <b>{formatNumber(depths.messages)}</b>
              <span class="dim">to running instances</span>
            </div>
          </div>
        )}
        {items?.length === 0 && (
          <Empty icon="queue" title="Nothing waits.">
            Work appears here while it is queued, runs, or is planned for later.
          </Empty>
        )}
        {items !== undefined &&
          (['task', 'activity', 'orchestration'] as const).map((kind) => {
            const inside = items.filter((queue) => queue.kind === kind);
            return inside.length === 0 ? null : (
              <QueueTable
                key={kind}
                title={titles[kind]}
                items={inside}
                reload={() => queues.reload()}
              />
            );
          })}
      </div>
    </>
  );
}

function QueueTable({
  title,
  items,
  reload,
}: {
  readonly title: string;
  readonly items: readonly Queue[];
  readonly reload: () => void;
}): JSX.Element {
  const deepest = Math.max(1, ...items.map(({ ready }) => ready));
  return (
    <Panel title={title} class="gap-bottom">
      <div class="table-scroll">
        <table class="queues">
          <thead>
            <tr>
              <th>Name</th>
              <th class="num">Waiting</th>
              <th class="bar-col hide-s" />
              <th class="num">Oldest</th>
              <th class="num">At work</th>
              <th class="num hide-s">Later</th>
              <th class="num hide-s">Workers</th>
              <th class="num">State</th>
            </tr>
          </thead>
          <tbody>
            {items.map((queue) => (
              <QueueRow key={queue.name} queue={queue} deepest={deepest} reload={reload} />
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function QueueRow({
  queue,
  deepest,
  reload,
}: {
  readonly queue: Queue;
  readonly deepest: number;
  readonly reload: () => void;
}): JSX.Element {
  const { kind, name, ready, delayed, claimed, oldestReadyAt, workers, pause, capped } = queue;
  const ageMs = oldestReadyAt === null ? 0 : now.value - oldestReadyAt;
  const count = (value: number): string =>
    value === 0 ? '' : `${formatNumber(value)}${capped === true ? '+' : ''}`;
  const toggle = async (): Promise<void> => {
    try {
      await call(pause === undefined ? 'pauseDefinition' : 'resumeDefinition', {
        body: { name, kind },
      });
      tell(pause === undefined ? `${name} is paused for all workers.` : `${name} is resumed.`);
      reload();
    } catch (error) {
      tellError(pause === undefined ? 'It was not paused' : 'It was not resumed', error);
    }
  };
  return (
    <tr>
      <td>
        {kind === 'activity' ? (
          <bdi>{name}</bdi>
        ) : (
          <a
            class="link"
            href={href(
              ['instances'],
              new URLSearchParams([
                ['name', name],
                ['status', 'pending'],
                ['status', 'running'],
              ]),
            )}
          >
            <bdi>{name}</bdi>
          </a>
        )}
      </td>
      <td class="num">{count(ready)}</td>
      <td class="bar-col hide-s">
        <Meter value={(ready / deepest) * 100} {...(ageMs > oldMs && { tone: 'retrying' })} />
      </td>
      <td class="num">
        {oldestReadyAt !== null &&
          (ageMs > oldMs ? <Status tone="retrying" text={formatAge(ageMs)} /> : formatAge(ageMs))}
      </td>
      <td class="num">{count(claimed)}</td>
      <td class="num hide-s">{count(delayed)}</td>
      <td class="num hide-s">
        {workers === 0 ? <Status tone="failed" text="none" /> : formatNumber(workers)}
      </td>
      <td class="num">
        {pause !== undefined && <Status tone="paused" />}
        {may('operate') && (
          <Button small look="ghost" onClick={() => void toggle()}>
            {pause === undefined ? 'Pause' : 'Resume'}
          </Button>
        )}
      </td>
    </tr>
  );
}
