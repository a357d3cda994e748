import type { ComponentChildren, JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { session } from '../api/session.ts';
import { Button } from '../components/button.tsx';
import { Icon } from '../components/icon.tsx';
import { isPaused, liveState } from '../state/live.ts';

/** One step of the path to a page. The last has no address. */
export interface Crumb {
  readonly text: string;
  readonly href?: string;
  readonly mono?: boolean;
}

/** The bar at the top of a page: its title or path, and its controls. Sets the title of the window. */
export function TopBar({
  title,
  crumbs,
  children,
}: {
  readonly title: string;
  readonly crumbs?: readonly Crumb[];
  readonly children?: ComponentChildren;
}): JSX.Element {
  const site = session.value?.title ?? 'Perdure';
  useEffect(() => {
    document.title = `${title} · ${site}`;
  }, [title, site]);
  const back = crumbs?.at(-2);
  return (
    <header class="top">
      {crumbs === undefined ? (
        <h1>{title}</h1>
      ) : (
        <nav class="crumb" aria-label="Path">
          {back?.href !== undefined && (
            <a class="back only-s" href={back.href}>
              <Icon name="chevronLeft" />
              {back.text}
            </a>
          )}
          {crumbs.map(({ text, href, mono }, index) =>
            href === undefined ? (
              <bdi
                key={index}
                class={`here cut only-l ${mono === true ? 'mono' : ''}`}
                aria-current="page"
              >
                {text}
              </bdi>
            ) : (
              <span key={index} class="only-l crumb-step">
                <a href={href}>{text}</a>
                <Icon small name="chevronRight" />
              </span>
            ),
          )}
        </nav>
      )}
      <div class="right">
        <LiveIndicator />
        {children}
      </div>
    </header>
  );
}

/** Whether the page follows what happens, and the button that pauses it. */
function LiveIndicator(): JSX.Element {
  const state = liveState.value;
  return (
    <>
      <span class={`live only-l ${state}`} role="status">
        {{ live: 'Live', paused: 'Paused', lost: 'Connection lost' }[state]}
      </span>
      <Button
        small
        look="ghost"
        icon={isPaused.value ? 'retrying' : 'pause'}
        label={isPaused.value ? 'Resume live updates (p)' : 'Pause live updates (p)'}
        onClick={() => {
          isPaused.value = !isPaused.value;
        }}
      />
    </>
  );
}
