import type { JSX } from 'preact';

/** A small chart: a line with its area, and a second line that is dashed. Its figures are in text beside it. */
export function Spark({
  values,
  second,
  label,
}: {
  readonly values: readonly (number | undefined)[];
  readonly second?: readonly (number | undefined)[];
  readonly label: string;
}): JSX.Element {
  const all = [...values, ...(second ?? [])].filter((value) => value !== undefined);
  const max = Math.max(1e-9, ...all);
  const width = 240;
  const height = 44;
  const toPath = (points: readonly (number | undefined)[]): string => {
    let path = '';
    let isOpen = false;
    for (const [index, value] of points.entries()) {
      if (value === undefined) {
        isOpen = false;
        continue;
      }
      const x = points.length < 2 ? 0 : (index / (points.length - 1)) * width;
      const y = height - 2 - (value / max) * (height - 6);
      path += `${isOpen ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
      isOpen = true;
    }
    return path;
  };
  const line = toPath(values.map((value) => value ?? 0));
  return (
    <svg
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path
        d={`M0 ${height}H${width}`}
        stroke="var(--viz-grid)"
        vector-effect="non-scaling-stroke"
      />
      <path
        d={`M0 ${height / 2}H${width}`}
        stroke="var(--viz-grid)"
        vector-effect="non-scaling-stroke"
      />
      {line !== '' && <path d={`${line}L${width} ${height}L0 ${height}Z`} fill="var(--viz-fill)" />}
      <path
        d={line}
        fill="none"
        stroke="var(--viz-1)"
        stroke-width="1.5"
        vector-effect="non-scaling-stroke"
      />
      {second !== undefined && (
        <path
          d={toPath(second)}
          fill="none"
          stroke="var(--viz-2)"
          stroke-width="1.5"
          stroke-dasharray="3 2"
          vector-effect="non-scaling-stroke"
        />
      )}
    </svg>
  );
}
