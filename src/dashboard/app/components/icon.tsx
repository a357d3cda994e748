import type { JSX } from 'preact';

// Lines of 1.5 px on a grid of 16 px; status icons differ by silhouette, not only by colour.
const line = {
  fill: 'none',
  stroke: 'currentColor',
  'stroke-width': '1.5',
  'stroke-linecap': 'round',
  'stroke-linejoin': 'round',
} as const;
// The mark inside a filled shape has the colour of the surface behind it.
const mark = { ...line, stroke: 'var(--surface)', 'stroke-width': '1.6' } as const;

const shapes = {
  activity: () => <path {...line} d="M9 1.8 3.5 9H8l-1 5.2L12.5 7H8z" />,
  archive: () => <path {...line} d="M2 2.8h12v3H2zM3 5.8v7.4h10V5.8M6.5 8.5h3" />,
  blocked: () => (
    <>
      <path d="M8 .9 15.1 8 8 15.1.9 8z" fill="currentColor" />
      <path {...mark} d="M8 4.9v3.6m0 2.2v.1" />
    </>
  ),
  canceled: () => (
    <>
      <circle {...line} cx="8" cy="8" r="5.75" />
      <path {...line} d="m4 12 8-8" />
    </>
  ),
  canceling: () => (
    <>
      <path {...line} d="M13.75 8A5.75 5.75 0 1 1 8 2.25" />
      <rect x="5.75" y="5.75" width="4.5" height="4.5" rx=".75" fill="currentColor" />
    </>
  ),
  chart: () => <path {...line} d="M2 12.5 6 7.8l3 2.4 5-6.4" />,
  check: () => <path {...line} d="M3 8.5 6.5 12 13 4.5" stroke-width="2.2" />,
  chevronDown: () => <path {...line} d="m3.5 6 4.5 4.5L12.5 6" />,
  chevronLeft: () => <path {...line} d="M10 3.5 5.5 8l4.5 4.5" />,
  chevronRight: () => <path {...line} d="m6 3.5 4.5 4.5L6 12.5" />,
  child: () => <path {...line} d="M4 2.5v7a2 2 0 0 0 2 2h6M9.5 8.7l2.8 2.8-2.8 2.8" />,
  clock: () => (
    <>
      <circle {...line} cx="8" cy="8" r="6" />
      <path {...line} d="M8 4.8V8l2.2 1.4" />
    </>
  ),
  close: () => <path {...line} d="m4 4 8 8m0-8-8 8" />,
  code: () => <path {...line} d="m5 4.5-3.5 3.5L5 11.5m6-7 3.5 3.5-3.5 3.5" />,
  columns: () => (
    <>
      <rect {...line} x="2" y="2.8" width="12" height="10.4" rx="1.5" />
      <path {...line} d="M6 2.8v10.4m4-10.4v10.4" />
    </>
  ),
  completed: () => (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" />
      <path {...mark} d="M5.2 8.2 7.2 10.2 10.9 6.1" />
    </>
  ),
  copy: () => (
    <>
      <rect {...line} x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path {...line} d="M10.5 3.2V3a.5.5 0 0 0-.5-.5H3a.5.5 0 0 0-.5.5v7c0 .3.2.5.5.5h.2" />
    </>
  ),
  down: () => <path {...line} d="M8 3v9.5m4-3.7-4 4-4-4" />,
  enter: () => <path {...line} d="M12.5 3.5V9h-9m3.2-3.2L3.5 9l3.2 3.2" />,
  event: () => (
    <path {...line} d="M2.5 8.5h3l1.2 2h2.6l1.2-2h3M2.5 8.5v4h11v-4M8 2v4.5M6 4.8l2 2 2-2" />
  ),
  external: () => (
    <path
      {...line}
      d="M9.5 2.5h4v4m0-4-6 6M12 9.5v3a1 1 0 0 1-1 1H3.5a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1h3"
    />
  ),
  failed: () => (
    <>
      <path d="M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3z" fill="currentColor" />
      <path {...mark} d="m5.9 5.9 4.2 4.2m0-4.2-4.2 4.2" />
    </>
  ),
  fit: () => <path {...line} d="M2.5 5.5v-3h3m5 0h3v3m0 5v3h-3m-5 0h-3v-3" />,
  flow: () => (
    <>
      <rect {...line} x="5.5" y="1.75" width="5" height="3.5" rx="1" />
      <rect {...line} x="1.75" y="10.75" width="5" height="3.5" rx="1" />
      <rect {...line} x="9.25" y="10.75" width="5" height="3.5" rx="1" />
      <path {...line} d="M8 5.5V8m-3.75 2.5V8h7.5v2.5" />
    </>
  ),
  instances: () => <path {...line} d="M2.5 4h11M2.5 8h11M2.5 12h7" />,
  logo: () => (
    <>
      <path {...line} d="M3 13.5V2.5h5.2a3.6 3.6 0 0 1 0 7.2H6.2" stroke-width="2" />
      <circle cx="12.6" cy="13" r="1.4" fill="currentColor" />
    </>
  ),
  menu: () => <path {...line} d="M2.5 4.5h11m-11 7h11" />,
  minus: () => <path {...line} d="M3 8h10" />,
  more: () => (
    <>
      <circle cx="3.5" cy="8" r="1.25" fill="currentColor" />
      <circle cx="8" cy="8" r="1.25" fill="currentColor" />
      <circle cx="12.5" cy="8" r="1.25" fill="currentColor" />
    </>
  ),
  notEqual: () => <path {...line} d="M4 6h8M4 10h8M10.5 3l-5 10" />,
  overview: () => <path {...line} d="M2.5 13.5h11M4 10.5v-3m4 3v-7m4 7v-5" />,
  pause: () => <path {...line} d="M5.5 3.5v9m5-9v9" />,
  paused: () => (
    <>
      <circle {...line} cx="8" cy="8" r="5.75" />
      <path {...line} d="M6.5 6v4m3-4v4" />
    </>
  ),
  pending: () => <circle {...line} cx="8" cy="8" r="5.75" stroke-dasharray="2.2 2.31" />,
  plus: () => <path {...line} d="M8 3v10M3 8h10" />,
  queue: () => <path {...line} d="m8 1.8 6 3-6 3-6-3zM2 8l6 3 6-3M2 11.2l6 3 6-3" />,
  queued: () => (
    <>
      <circle {...line} cx="8" cy="8" r="5.75" />
      <circle cx="8" cy="8" r="1.5" fill="currentColor" />
    </>
  ),
  retrying: () => <path {...line} d="M13.2 6.2A5.5 5.5 0 1 0 13.4 9.4M13.6 2.8v3.6H10" />,
  running: () => (
    <>
      <circle {...line} cx="8" cy="8" r="5.75" />
      <path d="M8 4.6a3.4 3.4 0 0 1 0 6.8z" fill="currentColor" />
    </>
  ),
  search: () => (
    <>
      <circle {...line} cx="7" cy="7" r="4.5" />
      <path {...line} d="m10.5 10.5 3.5 3.5" />
    </>
  ),
  send: () => <path {...line} d="M14 2 7.2 8.8M14 2 9.8 14 7.2 8.8 2 6.2z" />,
  session: () => <path {...line} d="M2 3.5h12v7H2zM5.5 13.5h5M8 10.5v3" />,
  settings: () => (
    <>
      <circle {...line} cx="8" cy="8" r="2" />
      <path
        {...line}
        d="M8 1.8v1.7m0 9v1.7M1.8 8h1.7m9 0h1.7M3.6 3.6l1.2 1.2m6.4 6.4 1.2 1.2m0-8.8-1.2 1.2M4.8 11.2l-1.2 1.2"
      />
    </>
  ),
  shield: () => <path {...line} d="M8 1.8 13 3.6v4c0 3.1-2.1 5.4-5 6.6-2.9-1.2-5-3.5-5-6.6v-4z" />,
  skipped: () => (
    <>
      <circle {...line} cx="8" cy="8" r="5.75" />
      <path {...line} d="M5.5 8h5" />
    </>
  ),
  terminated: () => (
    <rect x="2.25" y="2.25" width="11.5" height="11.5" rx="2" fill="currentColor" />
  ),
  tick: () => <path {...line} d="M3.5 8.5 6.5 11.5 12.5 5" />,
  up: () => <path {...line} d="M8 13V3.5M4 7.2 8 3.2l4 4" />,
  warning: () => (
    <>
      <path
        d="M8 1.8 14.8 13.6H1.2z"
        fill="currentColor"
        stroke="currentColor"
        stroke-width="1"
        stroke-linejoin="round"
      />
      <path {...mark} d="M8 6.2v3.2m0 2v.1" />
    </>
  ),
  worker: () => (
    <>
      <rect {...line} x="3.5" y="3.5" width="9" height="9" rx="1.5" />
      <path {...line} d="M6 1.5v2m4-2v2m-4 9v2m4-2v2M1.5 6h2m-2 4h2m9-4h2m-2 4h2" />
    </>
  ),
} as const satisfies Readonly<Record<string, () => JSX.Element>>;

export type IconName = keyof typeof shapes;

/** An icon of 16 px, or 14 px with `small`. Its meaning is in the text beside it, or in `label`. */
export function Icon({
  name,
  small = false,
  label,
  class: className = '',
}: {
  readonly name: IconName;
  readonly small?: boolean;
  readonly label?: string;
  readonly class?: string;
}): JSX.Element {
  return (
    <svg
      class={`${small ? 'i-s' : 'i'} ${className}`}
      viewBox="0 0 16 16"
      {...(label === undefined ? { 'aria-hidden': 'true' } : { role: 'img', 'aria-label': label })}
    >
      {shapes[name]()}
    </svg>
  );
}
