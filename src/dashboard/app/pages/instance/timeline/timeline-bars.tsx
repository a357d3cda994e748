import type { JSX } from 'preact';
import { Icon, type IconName } from '../../../components/icon.tsx';
import { StatusIcon } from '../../../components/status.tsx';
import { now } from '../../../state/clock.ts';
import { formatDuration } from '../../../words/format.ts';
import { since, until } from '../../../words/sentence.ts';
import { statusWords, type Tone } from '../../../words/status.ts';
import type { PendingWork } from '../instance-data.ts';
import type { TimeScale } from './time-scale.ts';
import type { Item } from './timeline-data.ts';
import { nameOf, toneOfRow, type TimelineRow } from './timeline-row.ts';

const icons: Readonly<Record<Item['kind'], IconName>> = {
  activity: 'activity',
  step: 'code',
  timer: 'clock',
  event: 'event',
  child: 'child',
  detached: 'send',
  awakeable: 'event',
  status: 'code',
  state: 'code',
};

/** About the width of the duration beside a bar, in per cent of the track. */
const labelShare = 10;

/** An operation: its label, and its bars on the track. */
export function TimelineBars({
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
  // A label never lies on a bar or on the hatching of an idle band, and never leaves the track.
  const from = scale.x(claimedAt ?? startedAt);
  const to = end === undefined ? 0 : scale.x(end);
  const isBefore = to > 100 - labelShare;
  const left = isBefore ? from - labelShare : to;
  const isOnIdle = scale.idle.some(({ x, width }) => left < x + width && left + labelShare > x);
  const label =
    end === undefined || left < 0 ? null : (
      <span
        class={`bl ${isBefore ? 'before' : ''} ${isOnIdle ? 'boxed' : ''}`}
        style={{ '--x': String(isBefore ? from : to) }}
      >
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
    case 'awakeable':
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
