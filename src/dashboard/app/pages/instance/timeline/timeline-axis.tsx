import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { now } from '../../../state/clock.ts';
import { formatDuration, formatTime } from '../../../words/format.ts';
import type { TimeScale } from './time-scale.ts';

export interface AxisProps {
  readonly scale: TimeScale;
  readonly active: boolean;
  readonly cancelAt: number | undefined;
  readonly cleanupUntil: number | undefined;
}

/** A text on the axis. `side`: where it stands beside its place. */
interface AxisLabel {
  readonly x: number;
  readonly text: string;
  readonly look: '' | 'hot' | 'now';
  readonly side: 'left' | 'center' | 'right';
}

// The average width of a character of the axis, in pixels, with some room.
const characterWidth = 6.4;
const labelGap = 8;

/** The times above the track. A label that has no room is left out. */
export function Axis(props: AxisProps): JSX.Element {
  const track = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const element = track.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  return (
    <div class="tl-axis" role="row" aria-hidden="true">
      <div class="lab">Operation</div>
      <div class="trk" ref={track}>
        {placeLabels(labelsOf(props), width).map(({ x, text, look, side }) => (
          <span
            key={`${look} ${x}`}
            class={`${look === 'now' ? 'nowtag' : `tk ${look}`} ${side === 'left' ? 'l' : side === 'right' ? 'e' : ''}`}
            style={{ '--x': String(x) }}
          >
            {text}
          </span>
        ))}
      </div>
    </div>
  );
}

/** The labels, the most important first. */
function labelsOf({ scale, active, cancelAt, cleanupUntil }: AxisProps): readonly AxisLabel[] {
  const label = (
    x: number,
    text: string,
    look: AxisLabel['look'] = '',
    side: AxisLabel['side'] = 'center',
  ): AxisLabel => ({ x, text, look, side });
  return [
    ...(active ? [label(scale.x(now.value), formatTime(now.value), 'now')] : []),
    ...(cancelAt === undefined
      ? []
      : [
          label(scale.x(cancelAt), `Cancel ${formatTime(cancelAt)}`, 'hot'),
          label(scale.x(cancelAt), 'Cancel', 'hot'),
        ]),
    ...(cleanupUntil === undefined || !active
      ? []
      : [
          label(scale.x(cleanupUntil), `Limit ${formatTime(cleanupUntil)}`, 'hot', 'right'),
          label(scale.x(cleanupUntil), 'Limit', 'hot', 'right'),
        ]),
    label(0, formatTime(scale.start), '', 'left'),
    ...scale.idle.map(({ x, width, from, to }) => label(x + width / 2, roughDuration(to - from))),
    ...scale.segments.slice(1).map(({ x, from }) => label(x, formatTime(from), '', 'left')),
    ...scale.ticks.map(({ x, offset }) => label(x, `+${formatDuration(offset)}`)),
  ];
}

/** A duration in one unit if that says enough: `4 h`, `18 min`. */
function roughDuration(ms: number): string {
  const text = formatDuration(ms);
  const [count = '', unit = ''] = text.split(' ');
  return Number(count) >= 10 ? `${count} ${unit}` : text;
}

/** Keeps the labels inside the track and leaves out those that would overlap an earlier one. */
function placeLabels(labels: readonly AxisLabel[], width: number): readonly AxisLabel[] {
  const taken: { from: number; to: number }[] = [];
  const named = new Set<string>();
  return labels.flatMap((label) => {
    const size = label.text.length * characterWidth + (label.look === 'now' ? 12 : 0);
    const at = (label.x / 100) * width;
    const word = label.text.split(' ')[0] ?? '';
    if (label.look === 'hot' && named.has(word)) return [];
    let { side } = label;
    if (side === 'center' && at - size / 2 < 0) side = 'left';
    if (side !== 'right' && at + (side === 'left' ? size : size / 2) > width) side = 'right';
    if (side === 'right' && at - size < 0) side = 'left';
    const from = side === 'left' ? at : side === 'right' ? at - size : at - size / 2;
    const to = from + size;
    if (taken.some((other) => from < other.to + labelGap && to > other.from - labelGap)) return [];
    taken.push({ from, to });
    if (label.look === 'hot') named.add(word);
    return [{ ...label, side }];
  });
}

/** Everything behind the rows: future, grid, idle bands, cancel, limit, now. */
export function Layer({ scale, active, cancelAt, cleanupUntil }: AxisProps): JSX.Element {
  const at = (x: number): Record<string, string> => ({ '--x': String(x) });
  return (
    <div class="tl-layer" aria-hidden="true">
      {active && <i class="tl-future" style={at(scale.x(now.value))} />}
      {scale.ticks.map(({ x }) => (
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
