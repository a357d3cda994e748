import type { JSX } from 'preact';
import { now } from '../../state/clock.ts';
import { formatDuration, formatTime } from '../../words/format.ts';
import type { TimeScale } from './time-scale.ts';

export interface AxisProps {
  readonly scale: TimeScale;
  readonly active: boolean;
  readonly cancelAt: number | undefined;
  readonly cleanupUntil: number | undefined;
}

/** The times above the track. */
export function Axis({ scale, active, cancelAt, cleanupUntil }: AxisProps): JSX.Element {
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
export function Layer({ scale, active, cancelAt, cleanupUntil }: AxisProps): JSX.Element {
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
