import { computed, signal } from '@preact/signals';
import { apiBase } from '../api/session.ts';

interface Place {
  /** Segments below the base, decoded. */
  readonly segments: readonly string[];
  readonly query: URLSearchParams;
}

function readPlace(): Place {
  const below = location.pathname.slice(apiBase.pathname.length);
  return {
    segments: below.split('/').filter(Boolean).map(readSegment),
    query: new URLSearchParams(location.search),
  };
}

/** The page that the address names. */
export const place = signal<Place>(readPlace());
export const query = computed(() => place.value.query);

/** The address of a page. URL parsers remove the segments `.` and `..`, so they get the prefix `~`. */
export function href(segments: readonly string[], search?: URLSearchParams | string): string {
  const path = segments.map(writeSegment).join('/');
  const text = search?.toString() ?? '';
  return `${apiBase.pathname}${path}${text === '' ? '' : `?${text}`}`;
}

export const instanceHref = (id: string, ...rest: readonly string[]): string =>
  href(['instances', id, ...rest]);

/** Opens a page. `replace` leaves no entry in the history of the browser. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const samePath = to.split('?')[0] === location.pathname;
  if (replace) history.replaceState(null, '', to);
  else history.pushState({ scroll: 0 }, '', to);
  place.value = readPlace();
  if (!samePath) {
    window.scrollTo(0, 0);
    // Screen readers continue at the new page.
    requestAnimationFrame(() => document.getElementById('main')?.focus({ preventScroll: true }));
  }
}

/** Changes parameters of the address. `undefined` removes one. */
export function setQuery(
  changes: Readonly<Record<string, string | readonly string[] | undefined>>,
  options: { replace?: boolean } = {},
): void {
  const next = new URLSearchParams(place.peek().query);
  for (const [key, value] of Object.entries(changes)) {
    next.delete(key);
    if (typeof value === 'string') next.set(key, value);
    else for (const one of value ?? []) next.append(key, one);
  }
  const text = next.toString();
  navigate(`${location.pathname}${text === '' ? '' : `?${text}`}`, options);
}

/** Follows links inside the dashboard without loading the page again. */
export function startRouter(): void {
  addEventListener('popstate', () => {
    place.value = readPlace();
  });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.('a[href]');
    if (!(link instanceof HTMLAnchorElement) || link.target !== '' || link.download !== '') return;
    if (link.origin !== location.origin || !link.pathname.startsWith(apiBase.pathname)) return;
    if (link.pathname.startsWith(`${apiBase.pathname}v1/`)) return;
    if (link.hash !== '' && link.pathname === location.pathname) return;
    event.preventDefault();
    if (link.href !== location.href) navigate(link.pathname + link.search);
  });
}

function writeSegment(value: string): string {
  const escaped = value === '.' || value === '..' || value.startsWith('~') ? `~${value}` : value;
  return encodeURIComponent(escaped);
}

function readSegment(text: string): string {
  try {
    const value = decodeURIComponent(text);
    return value.startsWith('~') ? value.slice(1) : value;
  } catch {
    return text;
  }
}
