import type { JSX } from 'preact';
import { formatNumber } from '../words/format.ts';

export interface Tab {
  readonly id: string;
  readonly title: string;
  readonly href: string;
  readonly count?: number;
}

/** Links to the parts of a page. */
export function Tabs({
  tabs,
  current,
  label,
}: {
  readonly tabs: readonly Tab[];
  readonly current: string;
  readonly label: string;
}): JSX.Element {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ id, title, href, count }) => (
        <a key={id} href={href} aria-current={id === current ? 'page' : undefined}>
          {title}
          {count !== undefined && <span>{formatNumber(count)}</span>}
        </a>
      ))}
    </nav>
  );
}
