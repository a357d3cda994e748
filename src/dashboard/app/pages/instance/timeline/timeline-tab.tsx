import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { call } from '../../../api/call.ts';
import { Button } from '../../../components/button.tsx';
import { Empty, Loading, Problem } from '../../../components/states.tsx';
import { VirtualList } from '../../../components/virtual-list.tsx';
import { now } from '../../../state/clock.ts';
import { query, setQuery } from '../../../state/router.ts';
import { useResource } from '../../../state/resource.ts';
import { plural } from '../../../words/format.ts';
import { isActive, type Tone } from '../../../words/status.ts';
import type { InstanceState, PendingWork } from '../instance-data.ts';
import { OperationPanel } from './operation-panel.tsx';
import { CancelPanel } from './cancel-panel.tsx';
import { RecentEvents } from './recent-events.tsx';
import { useShielded } from './shielded-operations.ts';
import { Axis, Layer, type AxisProps } from './timeline-axis.tsx';
import { TimelineBars } from './timeline-bars.tsx';
import { toneOfRow, type TimelineRow } from './timeline-row.ts';
import { TurnsRow } from './timeline-turns.tsx';
import { makeScale, type Span, type TimeScale } from './time-scale.ts';
import { useTimeline, type Item, type TimelineData } from './timeline-data.ts';

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
  const [follows, setFollows] = useState(true);
  const frame = useRef<HTMLDivElement>(null);
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
  const cancelMark = known?.marks.find(({ kind }) => kind === 'cancelRequested');
  const shielded = useShielded(
    instance.id,
    execution ?? instance.executionId,
    cancelMark?.id,
    String(known?.items.length),
  );
  // While it follows, the live edge stays in view.
  useEffect(() => {
    const scroller = frame.current?.querySelector('.vt');
    if (!follows || !active || zoom === 1 || !(scroller instanceof HTMLElement)) return;
    scroller.scrollLeft =
      (scale.x(now.peek()) / 100) * scroller.scrollWidth - scroller.clientWidth * 0.7;
  }, [follows, active, zoom, scale]);
  if (known === undefined) {
    return error.value === undefined ? <Loading rows={8} /> : <Problem error={error.value} />;
  }
  const chosen = query.value.get('op') ?? (isWide() ? troubleOf(rows)?.key : undefined);
  const selected = rows.find(({ key }) => key === chosen);
  const select = (row: TimelineRow | undefined): void =>
    setQuery({ op: row?.key ?? 'none' }, { replace: true });
  const toggleChild = (id: string): void => {
    const next = new Set(opened);
    if (!next.delete(id)) next.add(id);
    setOpened(next);
  };
  const atWork = known.items.filter(
    ({ endedAt, withdrawnAt }) => endedAt === undefined && withdrawnAt === undefined,
  ).length;
  const cancelAt = cancelMark?.at;
  const axis: AxisProps = { scale, active, cancelAt, cleanupUntil };
  const isShielded = (index: number): boolean => {
    const row = rows[index];
    return row !== undefined && row.depth === 0 && shielded.has(row.item.operation);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const row = rows[current];
    if (event.key === 'Escape' && selected !== undefined) select(undefined);
    else if (event.key === '+' || event.key === '=') setZoom(Math.min(64, zoom * 2));
    else if (event.key === '-') setZoom(Math.max(1, zoom / 2));
    else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
      const child = row?.item.childId;
      if (child === undefined || opened.has(child) === (event.key === 'ArrowRight')) return;
      toggleChild(child);
    } else return;
    event.preventDefault();
  };
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
            {active && (
              <Button small pressed={follows} onClick={() => setFollows(!follows)}>
                Follow
              </Button>
            )}
          </div>
        </div>
        {rows.length === 0 ? (
          <Empty icon="activity" title="No operations yet.">
            The code has not called an activity, timer, event or child.
          </Empty>
        ) : (
          <div class="tl-scroll" ref={frame} onKeyDown={onKeyDown}>
            <div
              class="tl"
              style={{
                '--zoom': String(zoom),
                '--rows': String(rows.length),
                '--gx': String(cancelAt === undefined ? 0 : scale.x(cancelAt)),
                '--ge': String(scale.x(end)),
              }}
            >
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
                  return [
                    row !== undefined && row.key === selected?.key ? 'sel' : '',
                    isGone ? 'gone' : '',
                    isShielded(index) ? 'shield' : '',
                    isShielded(index) && !isShielded(index - 1) ? 'first' : '',
                    isShielded(index) && !isShielded(index + 1) ? 'last' : '',
                  ].join(' ');
                }}
                header={
                  <div class="tl-head h">
                    <Axis {...axis} />
                    <TurnsRow name={instance.name} data={known} axis={axis} />
                  </div>
                }
                layer={<Layer {...axis} />}
                row={(index) => {
                  const row = rows[index];
                  if (row === undefined) return <span />;
                  return (
                    <TimelineBars
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
        <Legend rows={rows} hasShield={shielded.size > 0} />
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

/** Whether the details have room beside the timeline. */
function isWide(): boolean {
  return matchMedia('(min-width: 1100px)').matches;
}

/** The operation that an operator wants to see first: one that is retried, else the last that failed. */
function troubleOf(rows: readonly TimelineRow[]): TimelineRow | undefined {
  return (
    rows.find((row) => toneOfRow(row) === 'retrying') ??
    rows.findLast((row) => toneOfRow(row) === 'failed')
  );
}

type LegendEntry = readonly [look: string, tone: Tone, words: string];

/** Explains the looks that occur. */
function Legend({
  rows,
  hasShield,
}: {
  readonly rows: readonly TimelineRow[];
  readonly hasShield: boolean;
}): JSX.Element {
  const has = (test: (row: TimelineRow) => boolean): boolean => rows.some(test);
  const entries: readonly (false | LegendEntry)[] = [
    has(({ item }) => item.kind === 'activity') && ['', 'completed', 'activity'],
    has(({ item }) => item.kind === 'child' || item.kind === 'detached') && [
      'child',
      'completed',
      'child',
    ],
    has(
      (row) =>
        row.item.kind === 'event' || row.item.kind === 'awakeable' || toneOfRow(row) === 'queued',
    ) && ['wait', 'pending', 'waits for an event or a worker'],
    has(({ item }) => item.kind === 'timer') && ['timer', 'running', 'timer'],
    has((row) => toneOfRow(row) === 'failed') && ['fail', 'failed', 'failed'],
    has(({ pending }) => pending?.cancel !== undefined) && ['', 'canceling', 'asked to stop'],
    has((row) => toneOfRow(row) === 'retrying') && ['next', 'retrying', 'next attempt'],
    hasShield && ['zone', 'canceling', 'inside a shield'],
  ];
  return (
    <div class="tl-legend" aria-hidden="true">
      {entries
        .filter((entry) => entry !== false)
        .map(([look, tone, words]) => (
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
