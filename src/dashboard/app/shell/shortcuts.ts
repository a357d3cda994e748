import { href, navigate } from '../state/router.ts';
import { isPaused } from '../state/live.ts';
import { currentKeys } from '../state/page-keys.ts';
import { isHelpOpen, isPaletteOpen } from './palette-state.ts';
import { pages } from './pages.ts';

/** The key that opens the search, as it is labelled on this computer. */
export const commandKey = /Mac|iP(hone|ad)/.test(navigator.platform) ? '⌘ K' : 'Ctrl K';

/** The keys of every page. */
export const globalKeys: readonly { readonly key: string; readonly description: string }[] = [
  { key: '?', description: 'Show the keys' },
  { key: commandKey, description: 'Search or jump to' },
  { key: '/', description: 'Filter' },
  { key: 'p', description: 'Pause or resume live updates' },
  { key: 'Esc', description: 'Close a dialog, menu or panel' },
  ...pages.map(({ key, title }) => ({ key: `g ${key}`, description: title })),
];

let prefixAt = 0;

export function startShortcuts(): void {
  addEventListener('keydown', (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      isPaletteOpen.value = !isPaletteOpen.value;
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
    if (event.defaultPrevented || document.querySelector('dialog[open]') !== null) return;
    // Enter activates the focused control.
    if (event.key === 'Enter' && isControl(event.target)) return;
    if (run(event.key)) event.preventDefault();
  });
}

function run(key: string): boolean {
  const isAfterPrefix = Date.now() - prefixAt < 1_500;
  prefixAt = 0;
  if (isAfterPrefix) {
    const page = pages.find((one) => one.key === key);
    if (page === undefined) return false;
    navigate(href(page.path === '' ? [] : [page.path]));
    return true;
  }
  const own = currentKeys().find((one) => one.key === key);
  if (own !== undefined) {
    own.run();
    return true;
  }
  switch (key) {
    case 'g':
      prefixAt = Date.now();
      return true;
    case '?':
      isHelpOpen.value = true;
      return true;
    case 'p':
      isPaused.value = !isPaused.peek();
      return true;
    case '/': {
      const field = document.querySelector<HTMLElement>('[data-filter]');
      field?.focus();
      return field !== null;
    }
    default:
      return false;
  }
}

/** Whether Enter belongs to the focused element. */
function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a[href], button, summary') !== null;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}
