import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { call } from '../../api/call.ts';
import { Button } from '../../components/button.tsx';
import { Icon, type IconName } from '../../components/icon.tsx';
import { Empty, Loading, Problem } from '../../components/states.tsx';
import { StatusIcon } from '../../components/status.tsx';
import { VirtualList } from '../../components/virtual-list.tsx';
import { now } from '../../state/clock.ts';
import { query, setQuery } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatDuration, formatTime, plural } from '../../words/format.ts';
import { since, until } from '../../words/sentence.ts';
import { isActive, statusWords, type Tone } from '../../words/status.ts';
import type { InstanceState, PendingWork } from './instance-data.ts';
import { OperationPanel } from './operation-panel.tsx';
import { CancelPanel } from './cancel-panel.tsx';
import { RecentEvents } from './recent-events.tsx';
import { makeScale, type Span, type TimeScale } from './time-scale.ts';
import { useTimeline, type Item, type TimelineData } from './timeline-data.ts';

/** A row: an operation of the instance, or of a child that was opened. */
export interface TimelineRow {
  readonly key: string;
  readonly depth: number;
  readonly instanceId: string;
  readonly item: Item;
  readonly pending?: PendingWork;
}

const icons: Readonly<Record<Item['kind'], IconName>> = {
  activity: 'activity',
  timer: 'clock',
  event: 'event',
  child: 'child',
  detached: 'send',
  status: 'code',
};

/** What the instance did and does, as bars over time. */
export function TimelineTab({ data }: { readonly data: InstanceState }): JSX.Element {
  const { instance } = data;
  const version = `${instance.executionId} ${instance.status} ${JSON.stringify(instance.pending?.map((one) => one.operation))} ${data.why.text}`;
  const execution = Number(query.value.get('execution')) || undefined;
  const { data: timeline, error } = useTimeline(
    instance.id,
    execution ?? instance.executionId,
    version,
  );
  const running = useResource(`running ${instance.id} ${version}`, (signal) =>
    call('listRunning', { params: { id: instance.id } }, signal),
  );
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const children = useChildTimelines(opened, version);
  const [collapse, setCollapse] = useState(true);
  const [zoom, setZoom] = useState(1);
  const [current, setCurrent] = useState(-1);
  const known = timeline.value;
  const pending = running.data.value?.items ?? instance.pending ?? [];
  const rows = useMemo(
    () => (known === undefined ? [] : toRows(instance.id, known, pending, children)),
    [known, pending, children],
  );
  const active = isActive(instance.status) && execution === undefined;
  // While it runs, the scale moves once a second.
  const end = active ? now.value : (instance.endedAt ?? lastTime(known) ?? now.value);
  const limit = data.why.waits.find((wait) => wait.kind === 'cancel');
  const cleanupUntil = limit?.kind === 'cancel' ? limit.cleanupUntil : undefined;
  const nextTry = pending.reduce<number | undefined>(
    (latest, { nextTryAt }) =>
      nextTryAt === undefined ? latest : Math.max(latest ?? 0, nextTryAt),
    undefined,
  );
  const scale = useMemo(
    () => toScale(instance, known, end, { collapse, active, cleanupUntil, nextTry }),
    [instance, known, end, collapse, active, cleanupUntil, nextTry],
  );
  if (known === undefined) {
    return error.value === undefined ? <Loading rows={8} /> : <Problem error={error.value} />;
  }
  const selected = rows.find(({ key }) => key === query.value.get('op'));
  const select = (row: TimelineRow | undefined): void =>
    setQuery({ op: row?.key }, { replace: true });
  const toggleChild = (id: string): void => {
    const next = new Set(opened);
    if (!next.delete(id)) next.add(id);
    setOpened(next);
  };
  const atWork = known.items.filter(
    ({ endedAt, withdrawnAt }) => endedAt === undefined && withdrawnAt === undefined,
  ).length;
  const cancelAt = known.marks.find(({ kind }) => kind === 'cancelRequested')?.at;
  return (
    <div class={selected !== undefined || instance.status === 'canceling' ? 'split' : ''}>
      <div>
        <div class="tl-tools">
          <span>
            {plural(known.items.length, 'operation')}
            {active && atWork > 0 && `, ${atWork} still at work`}
            {!known.isComplete && ', reading more…'}
          </span>
          <div class="right">
            <Button
              small
              look="ghost"
              class="only-l"
              pressed={collapse}
              icon={collapse ? 'tick' : 'minus'}
              onClick={() => setCollapse(!collapse)}
            >
              {collapse ? 'Idle time collapsed' : 'Idle time shown'}
            </Button>
            <Button
              small
              look="ghost"
              icon="minus"
              label="Zoom out"
              disabled={zoom <= 1}
              onClick={() => setZoom(zoom / 2)}
            />
            <Button
              small
              look="ghost"
              icon="plus"
              label="Zoom in"
              disabled={zoom >= 64}
              onClick={() => setZoom(zoom * 2)}
            />
          </div>
        </div>
        {rows.length === 0 ? (
          <Empty icon="activity" title="No operations yet.">
            The code has not called an activity, timer, event or child.
          </Empty>
        ) : (
          <div class="tl-scroll">
            <div class="tl" style={{ '--zoom': String(zoom), '--rows': String(rows.length) }}>
              <VirtualList
                label="Timeline"
                class="tl-list"
                rowName="tl-row"
                count={rows.length}
                current={current}
                onCurrent={setCurrent}
                onOpen={(index) => select(rows[index])}
                isSelected={(index) =>
                  rows[index] !== undefined && rows[index]?.key === selected?.key
                }
                rowClass={(index) => {
                  const row = rows[index];
                  const isGone =
                    row?.item.outcome === 'canceled' &&
                    row.item.claimedAt === undefined &&
                    row.item.kind === 'activity';
                  return `${row !== undefined && row.key === selected?.key ? 'sel' : ''} ${isGone ? 'gone' : ''}`;
                }}
                header={
                  <Axis
                    scale={scale}
                    active={active}
                    cancelAt={cancelAt}
                    cleanupUntil={cleanupUntil}
                  />
                }
                layer={
                  <Layer
                    scale={scale}
                    active={active}
                    cancelAt={cancelAt}
                    cleanupUntil={cleanupUntil}
                  />
                }
                row={(index) => {
                  const row = rows[index];
                  if (row === undefined) return <span />;
                  return (
                    <Row
                      row={row}
                      scale={scale}
                      isOpen={opened.has(row.item.childId ?? '')}
                      onSelect={() => select(row)}
                      {...(row.item.childId !== undefined && {
                        onToggle: () => toggleChild(row.item.childId ?? ''),
                      })}
                    />
                  );
                }}
              />
            </div>
          </div>
        )}
        <Legend />
        <RecentEvents data={data} />
      </div>
      {selected !== undefined ? (
        <OperationPanel
          key={selected.key}
          row={selected}
          executionId={selected.depth === 0 ? (execution ?? instance.executionId) : undefined}
          onClose={() => select(undefined)}
        />
      ) : (
        instance.status === 'canceling' && <CancelPanel data={data} timeline={known} />
      )}
    </div>
  );
}

/** The timelines of the opened children, by their id. */
function useChildTimelines(
  opened: ReadonlySet<string>,
  version: string,
): ReadonlyMap<string, readonly Item[]> {
  const [loaded, setLoaded] = useState<ReadonlyMap<string, readonly Item[]>>(new Map());
  useEffect(() => {
    const abort = new AbortController();
    void Promise.all(
      [...opened].map(async (id) => {
        const { items } = await call(
          'getTimeline',
          { params: { id }, query: { limit: 1_000 } },
          abort.signal,
        );
        return [id, items] as const;
      }),
    ).then(
      (all) => setLoaded(new Map(all)),
      () => undefined, // Deleted meanwhile, or the connection is lost, which the page says elsewhere.
    );
    return () => abort.abort();
  }, [opened, version]);
  return loaded;
}

function toRows(
  instanceId: string,
  { items }: TimelineData,
  pending: readonly PendingWork[],
  children: ReadonlyMap<string, readonly Item[]>,
): readonly TimelineRow[] {
  const byOperation = new Map(pending.map((work) => [work.operation, work]));
  return items
    .filter(({ kind }) => kind !== 'status')
    .flatMap((item) => {
      const work = byOperation.get(item.operation);
      const row: TimelineRow = {
        key: String(item.operation),
        depth: 0,
        instanceId,
        item,
        ...(work !== undefined && item.endedAt === undefined && { pending: work }),
      };
      const inner = children.get(item.childId ?? '') ?? [];
      return [
        row,
        ...inner
          .filter(({ kind }) => kind !== 'status')
          .map((one) => ({
            key: `${item.operation}.${one.operation}`,
            depth: 1,
            instanceId: item.childId ?? '',
            item: one,
          })),
      ];
    });
}

function lastTime(data: TimelineData | undefined): number | undefined {
  const times = [
    ...(data?.marks ?? []).map(({ at }) => at),
    ...(data?.items ?? []).flatMap(({ endedAt, startedAt }) => [endedAt ?? 0, startedAt ?? 0]),
  ];
  return times.length === 0 ? undefined : times.reduce((a, b) => Math.max(a, b), 0);
}

function toScale(
  instance: InstanceState['instance'],
  data: TimelineData | undefined,
  end: number,
  {
    collapse,
    active,
    cleanupUntil,
    nextTry,
  }: {
    readonly collapse: boolean;
    readonly active: boolean;
    readonly cleanupUntil: number | undefined;
    readonly nextTry: number | undefined;
  },
): TimeScale {
  const start = data?.marks[0]?.at ?? instance.startedAt ?? instance.createdAt;
  const busy: Span[] = [];
  for (const { startedAt, claimedAt, endedAt, kind } of data?.items ?? []) {
    if (startedAt === undefined) continue;
    if (kind === 'activity') busy.push({ from: claimedAt ?? startedAt, to: endedAt ?? end });
    busy.push({ from: startedAt, to: startedAt });
    if (endedAt !== undefined) busy.push({ from: endedAt, to: endedAt });
  }
  for (const { at } of data?.marks ?? []) busy.push({ from: at, to: at });
  // Right of now is a plan: up to the limit of the clean-up or the next attempt.
  const planned = Math.max(cleanupUntil ?? 0, nextTry ?? 0);
  const until = active ? Math.max(end + 1_000, planned + (planned - end) * 0.2) : undefined;
  return makeScale(start, end, busy, { collapse, until });
}

interface AxisProps {
  readonly scale: TimeScale;
  readonly active: boolean;
  readonly cancelAt: number | undefined;
  readonly cleanupUntil: number | undefined;
}

function Axis({ scale, active, cancelAt, cleanupUntil }: AxisProps): JSX.Element {
  const labels: { x: number; text: string; look: string }[] = [
    { x: 0, text: formatTime(scale.start), look: 'l' },
    ...(active ? [{ x: scale.x(now.value), text: formatTime(now.value), look: 'now' }] : []),
    ...(cancelAt === undefined
      ? []
      : [{ x: scale.x(cancelAt), text: `Cancel ${formatTime(cancelAt)}`, look: 'hot' }]),
    ...(cleanupUntil === undefined || !active
      ? []
      : [{ x: scale.x(cleanupUntil), text: `Limit ${formatTime(cleanupUntil)}`, look: 'hot e' }]),
    ...scale.idle.map(({ x, width, from, to }) => ({
      x: x + width / 2,
      text: formatDuration(to - from),
      look: '',
    })),
    ...[25, 50, 75].map((x) => ({
      x,
      text: `+${formatDuration(scale.at(x) - scale.start)}`,
      look: '',
    })),
  ];
  // The first label at a place wins.
  const shown = labels.filter((label, index) =>
    labels
      .slice(0, index)
      .every((other) => Math.abs(other.x - label.x) >= labelWidth(label, other)),
  );
  return (
    <div class="tl-axis h" role="row" aria-hidden="true">
      <div class="lab">Operation</div>
      <div class="trk">
        {shown.map(({ x, text, look }) => (
          <span
            key={`${look} ${x}`}
            class={look === 'now' ? 'nowtag' : `tk ${look}`}
            style={{ '--x': String(x) }}
          >
            {text}
          </span>
        ))}
      </div>
    </div>
  );
}

/** How far apart two labels must be, in per cent of the track. */
function labelWidth(one: { readonly look: string }, other: { readonly look: string }): number {
  const isWide = one.look.includes('hot') || other.look.includes('hot');
  return isWide ? 14 : 9;
}

/** Everything behind the rows: future, grid, idle bands, cancel, limit, now. */
function Layer({ scale, active, cancelAt, cleanupUntil }: AxisProps): JSX.Element {
  const at = (x: number): Record<string, string> => ({ '--x': String(x) });
  return (
    <div class="tl-layer" aria-hidden="true">
      {active && <i class="tl-future" style={at(scale.x(now.value))} />}
      {[25, 50, 75].map((x) => (
        <i key={x} class="tl-grid" style={at(x)} />
      ))}
      {scale.idle.map(({ x, width, from }) => (
        <i key={from} class="tl-idle" style={{ '--x': String(x), '--w': String(width) }} />
      ))}
      {cancelAt !== undefined && (
        <i class="tl-mark" data-st="canceling" style={at(scale.x(cancelAt))} />
      )}
      {cleanupUntil !== undefined && active && (
        <i class="tl-mark dash" data-st="canceling" style={at(scale.x(cleanupUntil))} />
      )}
      {active && <i class="tl-now" style={at(scale.x(now.value))} />}
    </div>
  );
}

/** The state of an operation. */
export function toneOfRow({ item, pending }: TimelineRow): Tone {
  if (item.outcome !== undefined) return item.outcome;
  if (item.withdrawnAt !== undefined) return 'canceled';
  if (pending !== undefined) return pending.state;
  if (item.endedAt !== undefined) return 'completed';
  return item.kind === 'activity' ? 'queued' : 'running';
}

function Row({
  row,
  scale,
  isOpen,
  onSelect,
  onToggle,
}: {
  readonly row: TimelineRow;
  readonly scale: TimeScale;
  readonly isOpen: boolean;
  readonly onSelect: () => void;
  readonly onToggle?: () => void;
}): JSX.Element {
  const { item, pending, depth } = row;
  const tone = toneOfRow(row);
  return (
    <>
      <div class="lab" role="gridcell" style={{ '--d': String(depth) }} onClick={onSelect}>
        <span class="op">{item.operation}</span>
        <span class="k">
          {onToggle === undefined ? (
            <Icon small name={icons[item.kind]} />
          ) : (
            <button
              type="button"
              class="tl-toggle"
              tabIndex={-1}
              aria-label={
                isOpen ? 'Hide the operations of the child' : 'Show the operations of the child'
              }
              aria-expanded={isOpen}
              onClick={(event) => {
                event.stopPropagation();
                onToggle();
              }}
            >
              <Icon small name={isOpen ? 'chevronDown' : 'child'} />
            </button>
          )}
        </span>
        <span class="nm cut">
          <bdi>{nameOf(item)}</bdi>
        </span>
        <span class="x">{noteOf(row)}</span>
        <StatusIcon tone={tone} label={statusWords[tone].word} />
      </div>
      <div class="trk" role="gridcell" onClick={onSelect}>
        <Bars row={row} scale={scale} tone={tone} pending={pending} />
      </div>
    </>
  );
}

export function nameOf({ name, kind, childId }: Item): string {
  return (
    name ??
    childId ??
    {
      timer: 'timer',
      activity: 'activity',
      event: 'event',
      child: 'child',
      detached: 'detached',
      status: 'status',
    }[kind]
  );
}

function noteOf({ item, pending }: TimelineRow): string {
  if (pending !== undefined) {
    if (pending.cancel !== undefined) return 'asked to stop';
    if (pending.state === 'retrying' || pending.attempt > 1) {
      return pending.maxAttempts === undefined
        ? `attempt ${pending.attempt}`
        : `${pending.attempt} of ${pending.maxAttempts}`;
    }
    if (pending.heartbeatAt !== undefined) return `heartbeat ${since(pending.heartbeatAt)}`;
    return '';
  }
  if (
    item.kind === 'timer' &&
    item.endedAt === undefined &&
    item.withdrawnAt === undefined &&
    item.fireAt !== undefined
  ) {
    return until(item.fireAt).replace(/^in /, '').concat(' left');
  }
  if (item.outcome === 'canceled' && item.kind === 'activity' && item.claimedAt === undefined)
    return 'never started';
  if (item.withdrawnAt !== undefined && item.endedAt === undefined) return 'withdrawn';
  if ((item.attempts ?? 1) > 1) return `${item.attempts} attempts`;
  return '';
}

function Bars({
  row: { item },
  scale,
  tone,
  pending,
}: {
  readonly row: TimelineRow;
  readonly scale: TimeScale;
  readonly tone: Tone;
  readonly pending: PendingWork | undefined;
}): JSX.Element | null {
  const { startedAt, claimedAt, endedAt, withdrawnAt, fireAt, kind } = item;
  if (startedAt === undefined) return null;
  const end = endedAt ?? withdrawnAt;
  const bar = (look: string, state: Tone, from: number, to: number): JSX.Element => (
    <i
      class={`bar ${look}`}
      data-st={state}
      style={{
        '--x': String(scale.x(from)),
        '--w': String(Math.max(0, scale.x(to) - scale.x(from))),
      }}
    />
  );
  const label =
    end === undefined ? null : (
      <span class="bl" style={{ '--x': String(scale.x(end)) }}>
        {formatDuration(end - (claimedAt ?? startedAt))}
      </span>
    );
  const point = (at: number): JSX.Element => (
    <span class="pt" data-st={tone} style={{ '--x': String(scale.x(at)) }}>
      <Icon name={statusWords[tone].icon} class="ic" />
    </span>
  );
  switch (kind) {
    case 'activity': {
      if (pending !== undefined) {
        const cancelAt = pending.cancel === undefined ? undefined : withdrawnAt;
        return (
          <>
            {(pending.claimedAt ?? pending.nextTryAt) !== undefined &&
              bar(
                'backoff',
                pending.attempt > 1 ? 'retrying' : 'pending',
                startedAt,
                pending.claimedAt ?? now.value,
              )}
            {pending.claimedAt !== undefined &&
              bar('open', 'running', pending.claimedAt, cancelAt ?? now.value)}
            {pending.claimedAt !== undefined &&
              cancelAt !== undefined &&
              bar('open', 'canceling', cancelAt, now.value)}
            {pending.state === 'queued' && bar('wait', 'pending', startedAt, now.value)}
            {pending.state === 'retrying' && pending.nextTryAt !== undefined && (
              <>
                {bar('backoff', 'retrying', startedAt, pending.nextTryAt)}
                {bar(
                  'next',
                  'retrying',
                  pending.nextTryAt,
                  pending.nextTryAt + (scale.end - scale.start) * 0.03,
                )}
              </>
            )}
          </>
        );
      }
      if (end === undefined) return bar('wait', 'pending', startedAt, now.value);
      const isNeverStarted = claimedAt === undefined && item.outcome === 'canceled';
      return (
        <>
          {claimedAt !== undefined &&
            claimedAt - startedAt > 50 &&
            bar('backoff', 'pending', startedAt, claimedAt)}
          {isNeverStarted
            ? bar('next', 'canceled', startedAt, end)
            : bar(tone === 'failed' ? 'fail' : '', tone, claimedAt ?? startedAt, end)}
          {isNeverStarted ? point(end) : label}
        </>
      );
    }
    case 'timer':
      return (
        <>
          {bar(
            'timer',
            end === undefined ? 'running' : 'pending',
            startedAt,
            end ?? Math.min(fireAt ?? scale.end, scale.end),
          )}
          {end !== undefined && point(end)}
        </>
      );
    case 'event':
      return (
        <>
          {bar('wait', 'pending', startedAt, end ?? now.value)}
          {end !== undefined && point(end)}
        </>
      );
    case 'child':
    case 'detached':
      return (
        <>
          {bar(`child ${end === undefined ? 'open' : ''}`, tone, startedAt, end ?? now.value)}
          {label}
        </>
      );
    case 'status':
    default:
      return null;
  }
}

const legend: readonly (readonly [look: string, tone: Tone, words: string])[] = [
  ['', 'completed', 'activity'],
  ['child', 'completed', 'child'],
  ['wait', 'pending', 'waits for an event or a worker'],
  ['timer', 'running', 'timer'],
  ['fail', 'failed', 'failed'],
  ['next', 'retrying', 'next attempt'],
];

function Legend(): JSX.Element {
  return (
    <div class="tl-legend" aria-hidden="true">
      {legend.map(([look, tone, words]) => (
        <span key={words}>
          <span class="s">
            <i class={`bar ${look}`} data-st={tone} />
          </span>
          {words}
        </span>
      ))}
    </div>
  );
}
