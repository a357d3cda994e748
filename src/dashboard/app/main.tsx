import { effect } from '@preact/signals';
import { render } from 'preact';
import './styles/main.css';
import { markReached, markUnreachable, unreachableSince } from './api/connection.ts';
import { loadSession } from './api/session.ts';
import { App } from './shell/app.tsx';
import { pageOf } from './shell/pages.ts';
import { startShortcuts } from './shell/shortcuts.ts';
import { startClock } from './state/clock.ts';
import { place, startRouter } from './state/router.ts';
import { startSettings } from './state/settings.ts';

const retryMs = 3_000;

/** Reads the session, which also finds out whether the server answers again. */
async function readSession(): Promise<void> {
  try {
    await loadSession();
    markReached();
  } catch {
    markUnreachable();
    setTimeout(() => void readSession(), retryMs);
  }
}

startSettings();
startRouter();
startClock();
startShortcuts();
const root = document.getElementById('app');
if (root !== null) render(<App />, root);
// The code of the page loads while the session is read. If it fails, the page tries again and says so.
pageOf(place.peek().segments)
  ?.preload?.()
  .catch(() => undefined);
await readSession();
effect(() => {
  if (unreachableSince.value !== undefined) setTimeout(() => void readSession(), retryMs);
});
