import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { Icon } from '../../../components/icon.tsx';
import { plural } from '../../../words/format.ts';
import type { TimeScale } from './time-scale.ts';
import { Layer, type AxisProps } from './timeline-axis.tsx';
import type { TimelineData } from './timeline-data.ts';

/** The turns of the orchestration: all events of a turn are recorded at the same time. */
export function TurnsRow({
  name,
  data,
  axis,
}: {
  readonly name: string;
  readonly data: TimelineData;
  readonly axis: AxisProps;
}): JSX.Element {
  const times = useMemo(() => turnTimes(data), [data]);
  return (
    <div class="tl-row tl-turns" aria-hidden="true">
      <div class="lab">
        <span class="op" />
        <span class="k">
          <Icon small name="code" />
        </span>
        <span class="nm cut">
          <bdi>{name}</bdi>
        </span>
        <span class="x">{plural(times.length, 'turn')}</span>
      </div>
      <div class="trk">
        <Layer {...axis} />
        <span class="turns">
          {marksOf(times, axis.scale).map((x) => (
            <i key={x} style={{ '--x': String(x) }} />
          ))}
        </span>
      </div>
    </div>
  );
}

/** The times at which turns were committed, in order. */
function turnTimes({ items, marks }: TimelineData): readonly number[] {
  const times = new Set(marks.map(({ at }) => at));
  for (const { startedAt, endedAt, withdrawnAt } of items) {
    for (const at of [startedAt, endedAt, withdrawnAt]) if (at !== undefined) times.add(at);
  }
  return [...times].sort((a, b) => a - b);
}

/** The places of marks. Turns that are less than a pixel apart share one. */
function marksOf(times: readonly number[], scale: TimeScale): readonly number[] {
  return [...new Set(times.map((at) => Math.round(scale.x(at) * 5) / 5))];
}
