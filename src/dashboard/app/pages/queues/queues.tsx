import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Meter, Panel } from '../../components/panel.tsx';
import { Empty, LoadState } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { Row, Table, type TableColumn } from '../../components/table.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { now } from '../../state/clock.ts';
import { href, query } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { tell, tellError } from '../../state/toasts.ts';
import { formatAge, formatNumber } from '../../words/format.ts';

import { LimitPanel, LimitTable, limitId } from './limits.tsx';

type Queue = ResponseBody<'listQueues'>['items'][number];

const oldMs = 60_000;
const columns: readonly TableColumn[] = [
  { title: 'Name', width: '26%' },
  { title: 'Waiting', width: '9%', isNumber: true },
  { title: '', small: 'hidden' },
  { title: 'Oldest', width: '11%', isNumber: true },
  { title: 'At work', width: '9%', isNumber: true },
  { title: 'Later', width: '9%', isNumber: true },
  { title: 'Workers', width: '9%', isNumber: true },
  { title: '', width: '160px', isNumber: true, small: 'side' },
];
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
  const limited = useResource(
    'limits',
    (signal) => call('listLimits', { query: { limit: 200 } }, signal),
    { everyMs: 2_000 },
  );
  const items = queues.data.value?.items;
  const limits = limited.data.value?.items ?? [];
  const chosen = limits.find((one) => limitId(one) === query.value.get('limit'));
  return (
    <>
      <TopBar title="Tasks and queues" />
      <div class={chosen === undefined ? '' : 'split'}>
        <div class="wrap">
          <LoadState of={queues} />
          {items !== undefined && (
            <div class="facts panel gap-bottom">
              {(['orchestration', 'activity', 'task'] as const).map((kind) => (
                <Total key={kind} kind={kind} items={items.filter((one) => one.kind === kind)} />
              ))}
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
          {limits.length > 0 && <LimitTable items={limits} chosen={chosen} />}
        </div>
        {chosen !== undefined && (
          <LimitPanel key={limitId(chosen)} limits={chosen} reload={() => limited.reload()} />
        )}
      </div>
    </>
  );
}

function Total({
  kind,
  items,
}: {
  readonly kind: Queue['kind'];
  readonly items: readonly Queue[];
}): JSX.Element {
  const more = items.some(({ capped }) => capped) ? '+' : '';
  const sum = (count: (queue: Queue) => number): string =>
    `${formatNumber(items.reduce((total, queue) => total + count(queue), 0))}${more}`;
  return (
    <div>
      <span class="dim">
        {{ orchestration: 'Turns', activity: 'Activities', task: 'Task runs' }[kind]}
      </span>
      <b>{sum(({ ready }) => ready)}</b>
      <span class="dim">
        {sum(({ claimed }) => claimed)} at work, {sum(({ delayed }) => delayed)} later
      </span>
    </div>
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
      <Table label={title} columns={columns}>
        {items.map((queue) => (
          <QueueRow key={queue.name} queue={queue} deepest={deepest} reload={reload} />
        ))}
      </Table>
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
  const search = new URLSearchParams([
    ['name', name],
    ['status', 'pending'],
    ['status', 'running'],
  ]);
  return (
    <Row
      cells={[
        kind === 'activity' ? (
          <bdi title={name}>{name}</bdi>
        ) : (
          <a class="link" href={href(['instances'], search)} title={name}>
            <bdi>{name}</bdi>
          </a>
        ),
        count(ready),
        ready > 0 && (
          <Meter value={(ready / deepest) * 100} {...(ageMs > oldMs && { tone: 'retrying' })} />
        ),
        oldestReadyAt !== null &&
          (ageMs > oldMs ? (
            <Status tone="retrying" isProblem text={formatAge(ageMs)} />
          ) : (
            formatAge(ageMs)
          )),
        count(claimed),
        count(delayed),
        workers === 0 ? <Status tone="failed" isProblem text="none" /> : formatNumber(workers),
        <span class="cell-acts">
          {pause !== undefined && <Status tone="paused" />}
          {may('operate') && (
            <Button
              small
              look="ghost"
              label={`${pause === undefined ? 'Pause' : 'Resume'} ${name}`}
              onClick={() => void toggle()}
            >
              {pause === undefined ? 'Pause' : 'Resume'}
            </Button>
          )}
        </span>,
      ]}
    />
  );
}
