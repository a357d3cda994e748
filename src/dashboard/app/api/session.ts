import { computed, signal } from '@preact/signals';
import { ApiError, readError } from './api-error.ts';

/** A caller's rights. Each role includes those before it. */
export type Role = 'read' | 'operate' | 'admin';

/** A link to another tool. `{id}` and `{name}` in `href` stand for the instance. */
interface ExternalLink {
  readonly label: string;
  readonly href: string;
}

/** The login session and the settings of the dashboard, as the server states them. */
export interface SessionInfo {
  readonly state: 'open' | 'signedIn' | 'signedOut';
  readonly role: Role | null;
  readonly name: string | null;
  readonly csrfToken: string | null;
  readonly expiresAt: number | null;
  readonly title: string;
  readonly environment: string | null;
  readonly readOnly: boolean;
  readonly links: readonly ExternalLink[];
  readonly version: string;
  /** The clock of the server, in milliseconds since the epoch. */
  readonly now: number;
}

/** `undefined` until the server has answered for the first time. */
export const session = signal<SessionInfo | undefined>(undefined);

/** How far the clock of the server is ahead of the browser's, in milliseconds. */
export const serverAheadMs = signal(0);

const ranks: Readonly<Record<Role, number>> = { read: 0, operate: 1, admin: 2 };

const rank = computed(() => {
  const { value } = session;
  if (value?.role == null) return -1;
  return value.readOnly ? ranks.read : ranks[value.role];
});

/** Whether the caller may use actions of a role. The server checks it again. */
export function may(role: Role): boolean {
  return rank.value >= ranks[role];
}

export const apiBase = new URL('.', document.baseURI);

/** Reads the session. */
export function loadSession(): Promise<void> {
  return exchange('GET');
}

/** Exchanges a token for a session. Throws `ApiError` for a wrong token. */
export function signIn(token: string): Promise<void> {
  return exchange('POST', { token });
}

export function signOut(): Promise<void> {
  return exchange('DELETE');
}

/** Shows the login after the server refused the session. */
export function forgetSession(): void {
  const { value } = session;
  if (value === undefined || value.state === 'signedOut') return;
  session.value = { ...value, state: 'signedOut', role: null, csrfToken: null, expiresAt: null };
}

async function exchange(method: string, body?: unknown): Promise<void> {
  const sentAt = Date.now();
  const csrfToken = session.value?.csrfToken;
  let response: Response;
  try {
    response = await fetch(new URL('session', apiBase), {
      method,
      credentials: 'same-origin',
      headers: {
        accept: 'application/json',
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(csrfToken != null && { 'x-perdure-csrf': csrfToken }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  } catch {
    throw new ApiError(0, 'UNREACHABLE', 'The server cannot be reached.');
  }
  if (!response.ok) throw await readError(response);
  const info = (await response.json()) as SessionInfo;
  serverAheadMs.value = clockDifference(info.now, sentAt, Date.now());
  session.value = info;
}

/** Differences below the time of the request are not meaningful. */
function clockDifference(serverNow: number, sentAt: number, receivedAt: number): number {
  const ahead = serverNow - (sentAt + receivedAt) / 2;
  return Math.abs(ahead) > Math.max(1_000, receivedAt - sentAt) ? ahead : 0;
}
