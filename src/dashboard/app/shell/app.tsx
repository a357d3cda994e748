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
import { pageOf } from './pages.ts';
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
  const { segments } = place.value;
  const [first = '', ...rest] = segments;
  const Page = pageOf(segments);
  if (Page === undefined) {
    return (
      <Empty icon="search" title="No such page.">
        <a class="link" href={href([])}>
          Go to the overview
        </a>
      </Empty>
    );
  }
  // Each instance has its own page.
  return <Page key={first === 'instances' ? `${first} ${rest[0] ?? ''}` : first} segments={rest} />;
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
