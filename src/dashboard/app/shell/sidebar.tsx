import type { JSX } from 'preact';
import { session, signOut } from '../api/session.ts';
import { Button } from '../components/button.tsx';
import { Icon } from '../components/icon.tsx';
import { attention } from '../state/attention.ts';
import { liveState } from '../state/live.ts';
import { href, place } from '../state/router.ts';
import { savedViews, viewHref } from '../state/saved-views.ts';
import { formatNumber } from '../words/format.ts';
import { isPaletteOpen } from './palette-state.ts';
import { pages } from './pages.ts';

const commandKey = /Mac|iP(hone|ad)/.test(navigator.platform) ? '⌘K' : 'Ctrl K';

/** The navigation at the left. */
export function Sidebar(): JSX.Element {
  const current = place.value.segments[0] ?? '';
  const info = session.value;
  return (
    <aside class="side">
      <div class="brand">
        <Icon name="logo" />
        <bdi class="cut">{info?.title ?? 'Perdure'}</bdi>
        {info?.environment != null && <bdi class="env">{info.environment}</bdi>}
      </div>
      <button
        class="find"
        type="button"
        aria-label="Search or jump to"
        onClick={() => {
          isPaletteOpen.value = true;
        }}
      >
        <Icon small name="search" />
        Search or jump to
        <kbd>{commandKey}</kbd>
      </button>
      <nav class="nav" aria-label="Pages">
        {pages
          .filter(({ path }) => path !== 'settings')
          .map(({ path, title, icon }) => (
            <a
              key={path}
              href={href(path === '' ? [] : [path])}
              aria-current={path === current ? 'page' : undefined}
              title={title}
            >
              <Icon name={icon} />
              {title}
              {path === '' && attention.value > 0 && (
                <span class="n hot" aria-label={`${attention.value} need attention`}>
                  {formatNumber(attention.value)}
                </span>
              )}
            </a>
          ))}
        {savedViews.value.length > 0 && <div class="nav-h">Saved views</div>}
        {savedViews.value.map((view) => (
          <a key={view.name} href={viewHref(view)}>
            <Icon name="instances" />
            <bdi class="cut">{view.name}</bdi>
          </a>
        ))}
      </nav>
      <div class="side-foot">
        <span class={`live ${liveState.value}`}>
          {{ live: 'Live', paused: 'Paused', lost: 'Connection lost' }[liveState.value]}
        </span>
        <span class="dim role cut">
          {info?.readOnly === true ? 'read only' : (info?.name ?? info?.role ?? '')}
        </span>
        {info?.state === 'signedIn' && (
          <Button
            small
            look="ghost"
            icon="external"
            label="Sign out"
            onClick={() => void signOut()}
          />
        )}
        <a
          class="btn icon s ghost"
          href={href(['settings'])}
          aria-label="Settings"
          title="Settings"
        >
          <Icon name="settings" />
        </a>
      </div>
    </aside>
  );
}

const bottomPages = ['', 'instances', 'flows', 'queues', 'workers'];

/** The navigation at the bottom of small screens. */
export function BottomBar(): JSX.Element {
  const current = place.value.segments[0] ?? '';
  return (
    <nav class="bottom-nav" aria-label="Pages">
      {pages
        .filter(({ path }) => bottomPages.includes(path))
        .map(({ path, title, icon }) => (
          <a
            key={path}
            href={href(path === '' ? [] : [path])}
            aria-current={path === current ? 'page' : undefined}
          >
            <Icon name={icon} />
            {title === 'Tasks and queues' ? 'Queues' : title}
          </a>
        ))}
    </nav>
  );
}
