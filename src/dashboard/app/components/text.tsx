import type { JSX } from 'preact';
import { now } from '../state/clock.ts';
import { formatAge, formatDateTime, formatDuration, formatMoment } from '../words/format.ts';

/** A name or id of a user, isolated so that its writing direction does not change the text around it. */
export function Name({
  children,
  mono = false,
}: {
  readonly children: string;
  readonly mono?: boolean;
}): JSX.Element {
  return <bdi class={mono ? 'mono' : undefined}>{children}</bdi>;
}

/** Text with `names` in backticks, as the server writes sentences. Names are shown as code. */
export function Sentence({ children }: { readonly children: string }): JSX.Element {
  const parts = children.split('`');
  return (
    <>
      {parts.map((part, index) =>
        index % 2 === 1 && index < parts.length - 1 ? (
          <code key={index}>
            <bdi>{part}</bdi>
          </code>
        ) : (
          <bdi key={index}>{index % 2 === 1 ? `\`${part}` : part}</bdi>
        ),
      )}
    </>
  );
}

/** How long ago something happened. Ticks; the exact time is in the tooltip. */
export function Ago({
  at,
  suffix = ' ago',
}: {
  readonly at: number;
  readonly suffix?: string;
}): JSX.Element {
  return (
    <time dateTime={toIso(at)} title={formatDateTime(at)}>
      {`${formatAge(now.value - at)}${suffix}`}
    </time>
  );
}

/** How long until something happens; `now` once it is due. */
export function Until({ at }: { readonly at: number }): JSX.Element {
  const ms = at - now.value;
  return (
    <time dateTime={toIso(at)} title={formatDateTime(at)}>
      {ms <= 0 ? 'now' : `in ${formatDuration(Math.ceil(ms / 1_000) * 1_000)}`}
    </time>
  );
}

export function Moment({ at }: { readonly at: number }): JSX.Element {
  return (
    <time dateTime={toIso(at)} title={formatDateTime(at)}>
      {formatMoment(at, now.value)}
    </time>
  );
}

function toIso(at: number): string {
  return Math.abs(at) <= 8.64e15 ? new Date(at).toISOString() : '';
}
