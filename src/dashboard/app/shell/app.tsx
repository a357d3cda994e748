import type { JSX } from 'preact';
import { unreachableSince } from '../api/connection.ts';
import { session } from '../api/session.ts';
import { Empty } from '../components/states.tsx';
import { Ago } from '../components/text.tsx';
import { href, place } from '../state/router.ts';
import { BulkDock } from './bulk-dock.tsx';
import { ActionDialog } from './action-dialog.tsx';
import { Help } from './help.tsx';
import { Login } from './login.tsx';
import { instancePage as InstancePage, pages } from './pages.ts';
import { Palette } from './palette.tsx';
import { BottomBar, Sidebar } from './sidebar.tsx';
import { Toasts } from './toasts.tsx';

/** The dashboard: login, or navigation and a page. */
export function App(): JSX.Element | null {
  const info = session.value;
  if (info === undefined) return <ConnectionBanner />;
  if (info.state === 'signedOut') {
    return (
      <>
        <ConnectionBanner />
        <Login />
      </>
    );
  }
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <div class="app">
        <Sidebar />
        <main class="main" id="main" tabIndex={-1}>
          <ConnectionBanner />
          <CurrentPage />
        </main>
        <BottomBar />
      </div>
      <BulkDock />
      <Palette />
      <Help />
      <ActionDialog />
      <Toasts />
    </>
  );
}

/** Moves the focus to the page. The address would be that of the base. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function CurrentPage(): JSX.Element {
  const [first = '', ...rest] = place.value.segments;
  if (first === 'instances' && rest.length > 0) {
    return <InstancePage key={rest[0]} segments={rest} />;
  }
  const page = pages.find(({ path }) => path === first);
  if (page === undefined) {
    return (
      <Empty icon="search" title="No such page.">
        <a class="link" href={href([])}>
          Go to the overview
        </a>
      </Empty>
    );
  }
  const Page = page.component;
  return <Page key={page.path} segments={rest} />;
}

/** Says that the page is not up to date because the server does not answer. */
function ConnectionBanner(): JSX.Element | null {
  const since = unreachableSince.value;
  if (since === undefined) return null;
  return (
    <div class="banner" role="alert">
      Cannot reach the server. This page is from <Ago at={since} />. Retrying.
    </div>
  );
}
