import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { innerWidth } from './inner-width.ts';
import type { Line } from './plot.tsx';

/** Draws a chart in the colours of the design. */
export function makePlot({
  element,
  height,
  lines,
  data,
  format,
  formatTime,
}: {
  readonly element: HTMLElement;
  readonly height: number;
  readonly lines: readonly Line[];
  readonly data: uPlot.AlignedData;
  readonly format: (value: number) => string;
  readonly formatTime: (at: number) => string;
}): uPlot {
  const style = getComputedStyle(element);
  const color = (name: string): string => resolveColor(element, name);
  const font = `11px ${style.fontFamily}`;
  const axis = {
    font,
    stroke: color('--ink-3'),
    grid: { stroke: color('--viz-grid'), width: 1 },
    ticks: { show: false },
  };
  return new uPlot(
    {
      width: innerWidth(element),
      height,
      legend: { show: false },
      cursor: { y: false },
      padding: [8, 20, 0, 0],
      axes: [
        { ...axis, size: 28, values: (_, times) => times.map((time) => formatTime(time)) },
        { ...axis, size: 64, values: (_, values) => values.map((value) => format(value)) },
      ],
      scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      series: [
        {},
        ...lines.map(({ title, color: name, dashed = false }, index) => ({
          label: title,
          stroke: color(name),
          width: 1.5,
          spanGaps: false,
          points: { show: false },
          ...(dashed && { dash: [4, 3] }),
          ...(index === 0 && name === '--viz-1' && { fill: color('--viz-fill') }),
        })),
      ],
    },
    data,
    element,
  );
}

/** The colour of a custom property as the canvas understands it: `light-dark()` is resolved by the browser. */
function resolveColor(element: HTMLElement, name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
