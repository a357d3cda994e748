import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../api/call.ts';
import { session, signOut } from '../api/session.ts';
import { Button } from '../components/button.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Icon } from '../components/icon.tsx';
import { attention } from '../state/attention.ts';
import { liveState } from '../state/live.ts';
import { useResource } from '../state/resource.ts';
import { href, place } from '../state/router.ts';
import { savedViews, viewHref } from '../state/saved-views.ts';
import { useViewCounts } from '../state/view-counts.ts';
import { formatCount, formatNumber } from '../words/format.ts';
import { isPaletteOpen } from './palette-state.ts';
import { pages, type Page } from './pages.ts';
import { commandKey } from './shortcuts.ts';

const attentionMs = 15_000;
/** Lets the first page be read before the counts of the navigation. */
const firstReadMs = 1_500;

/** The navigation at the left. Below 1240 px it is a rail of icons. */
export function Sidebar(): JSX.Element {
  const current = place.value.segments[0] ?? '';
  const info = session.value;
  return (
    <aside class="side" aria-label="Navigation">
      <AttentionCount />
      <div class="brand">
        <Icon name="logo" />
        <bdi class="cut" title={info?.title}>
          {info?.title ?? 'Perdure'}
        </bdi>
        {info?.environment != null && (
          <bdi class="env cut" title={info.environment}>
            {info.environment}
          </bdi>
        )}
      </div>
      <button
        class="find"
        type="button"
        title={`Search or jump to (${commandKey})`}
        onClick={() => {
          isPaletteOpen.value = true;
        }}
      >
        <Icon small name="search" />
        <span class="side-text">Search or jump to</span>
        <kbd>{commandKey}</kbd>
      </button>
      <nav class="nav" aria-label="Pages">
        {pages
          .filter(({ path }) => path !== 'settings')
          .map((page) => (
            <PageLink key={page.path} page={page} current={current}>
              <span class="side-text cut">{page.title}</span>
              {page.path === '' && attention.value > 0 && (
                <span class="n hot">
                  {formatNumber(attention.value)}
                  <span class="sr"> need attention</span>
                </span>
              )}
            </PageLink>
          ))}
      </nav>
      {savedViews.value.length > 0 && <SavedViews />}
      <div class="side-foot">
        <span class={`live ${liveState.value}`}>
          {{ live: 'Live', paused: 'Paused', lost: 'Connection lost' }[liveState.value]}
        </span>
        <bdi class="dim role cut">
          {info?.readOnly === true ? 'read only' : (info?.name ?? info?.role ?? '')}
        </bdi>
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
          aria-current={current === 'settings' ? 'page' : undefined}
          title="Settings"
        >
          <Icon name="settings" />
        </a>
      </div>
    </aside>
  );
}

function PageLink({
  page: { path, title, icon },
  current,
  children,
}: {
  readonly page: Page;
  readonly current: string;
  readonly children: JSX.Element | (JSX.Element | false)[];
}): JSX.Element {
  return (
    <a
      href={href(path === '' ? [] : [path])}
      aria-current={path === current ? 'page' : undefined}
      title={title}
    >
      <Icon name={icon} />
      {children}
    </a>
  );
}

function SavedViews(): JSX.Element {
  const views = savedViews.value;
  const counts = useViewCounts(views);
  const search = place.value.segments.length === 1 ? place.value.query.toString() : undefined;
  return (
    <nav class="nav saved" aria-labelledby="saved-views">
      <h2 class="nav-h" id="saved-views">
        Saved views
      </h2>
      {views.map((view) => {
        const count = counts.get(view.query);
        return (
          <a
            key={view.name}
            href={viewHref(view)}
            title={view.name}
            aria-current={view.query === search ? 'true' : undefined}
          >
            <Icon name="instances" />
            <bdi class="side-text cut">{view.name}</bdi>
            {count !== undefined && <span class="n">{formatCount(count)}</span>}
          </a>
        );
      })}
    </nav>
  );
}

/** Keeps the number beside the overview up to date on every page. */
function AttentionCount(): JSX.Element | null {
  const [isReading, setReading] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setReading(true), firstReadMs);
    return () => clearTimeout(timer);
  }, []);
  // The overview reads it more often.
  const isOverview = place.value.segments.length === 0;
  return isReading && !isOverview ? <AttentionReader /> : null;
}

function AttentionReader(): null {
  const { data } = useResource('attention', (signal) => call('getAttention', {}, signal), {
    everyMs: attentionMs,
  });
  const count = data.value?.findings.length;
  useEffect(() => {
    if (count !== undefined) attention.value = count;
  }, [count]);
  return null;
}

const bottomPages = ['', 'instances', 'flows', 'queues'];

/** The navigation at the bottom of small screens. */
export function BottomBar(): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const current = place.value.segments[0] ?? '';
  const others = pages.filter(({ path }) => !bottomPages.includes(path));
  return (
    <nav class="bottom-nav" aria-label="Main pages">
      {pages
        .filter(({ path }) => bottomPages.includes(path))
        .map((page) => (
          <PageLink key={page.path} page={page} current={current}>
            <span>{page.title === 'Tasks and queues' ? 'Queues' : page.title}</span>
            {page.path === '' && attention.value > 0 && (
              <span class="n hot">
                {formatNumber(attention.value)}
                <span class="sr"> need attention</span>
              </span>
            )}
          </PageLink>
        ))}
      <button
        type="button"
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        class={others.some(({ path }) => path === current) ? 'on' : ''}
        onClick={() => setOpen(true)}
      >
        <Icon name="menu" />
        <span>More</span>
      </button>
      {isOpen && <MoreSheet pages={others} current={current} onClose={() => setOpen(false)} />}
    </nav>
  );
}

function MoreSheet({
  pages: shown,
  current,
  onClose,
}: {
  readonly pages: readonly Page[];
  readonly current: string;
  readonly onClose: () => void;
}): JSX.Element {
  return (
    <Dialog class="confirm sheet" label="More pages" onClose={onClose}>
      <div class="sheet-list" onClick={onClose}>
        <button
          type="button"
          autofocus
          onClick={() => {
            isPaletteOpen.value = true;
          }}
        >
          <Icon name="search" />
          Search or jump to
        </button>
        {shown.map((page) => (
          <PageLink key={page.path} page={page} current={current}>
            <span>{page.title}</span>
          </PageLink>
        ))}
        {savedViews.value.map((view) => (
          <a key={view.name} href={viewHref(view)}>
            <Icon name="instances" />
            <bdi class="cut">{view.name}</bdi>
          </a>
        ))}
        {session.value?.state === 'signedIn' && (
          <button type="button" onClick={() => void signOut()}>
            <Icon name="external" />
            Sign out
          </button>
        )}
      </div>
    </Dialog>
  );
}
