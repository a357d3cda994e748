import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { effect } from '@preact/signals';
import type uPlot from 'uplot';
import { innerWidth } from './inner-width.ts';
import { theme, timeZone } from '../../state/settings.ts';
import { formatTime } from '../../words/format.ts';

export interface Line {
  readonly title: string;
  readonly values: readonly (number | undefined)[];
  readonly color: string;
  readonly dashed?: boolean;
}

const height = 180;

/** A chart over time. Its library is loaded when a chart is first shown. */
export function Plot({
  times,
  lines,
  format,
  label,
}: {
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly format: (value: number) => string;
  readonly label: string;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const data = [
    times.map((time) => time / 1_000),
    ...lines.map(({ values }) => values.map((value) => value ?? null)),
  ] as uPlot.AlignedData;
  useEffect(() => {
    let isCurrent = true;
    let dispose: (() => void) | undefined;
    let observer: ResizeObserver | undefined;
    const draw = async (): Promise<void> => {
      const { makePlot } = await import('./uplot.ts');
      const element = box.current;
      if (!isCurrent || element === null) return;
      // Colours are those of the theme, so a new theme draws a new chart.
      dispose = effect(() => {
        void theme.value;
        void timeZone.value;
        chart.current?.destroy();
        chart.current = makePlot({
          element,
          height,
          lines,
          data,
          format,
          formatTime: (at) => formatTime(at * 1_000).slice(0, 5),
        });
      });
      observer = new ResizeObserver(() => {
        if (element.clientWidth > 0) chart.current?.setSize({ width: innerWidth(element), height });
      });
      observer.observe(element);
    };
    void draw();
    return () => {
      isCurrent = false;
      dispose?.();
      observer?.disconnect();
      chart.current?.destroy();
      chart.current = undefined;
    };
  }, [lines.map(({ title }) => title).join(' ')]);
  useEffect(() => {
    chart.current?.setData(data);
  }, [times, lines]);
  return <div class="plot" ref={box} role="img" aria-label={label} />;
}
