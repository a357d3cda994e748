import type { Role } from '../../server/routes/route.ts';

/** A link of an instance to another tool, for example to its traces or logs. */
export interface DashboardLink {
  readonly label: string;
  /** An `http` or `https` URL or a path. `{id}` and `{name}` are replaced, URL-encoded, after the host. */
  readonly href: string;
}

/** The JSON of `/session`: the caller, and the settings of the dashboard. */
export interface SessionState {
  /** `open`: the server has no authentication, and every caller is an admin. */
  readonly state: 'open' | 'signedIn' | 'signedOut';
  readonly role: Role | null;
  /** Name of the token, or the name that `authorize` returned. */
  readonly name: string | null;
  /** Sent as `x-perdure-csrf` with every write. `null` without a login session. */
  readonly csrfToken: string | null;
  /** End of the login session if it is not used, in milliseconds since the epoch. */
  readonly expiresAt: number | null;
  readonly title: string;
  readonly environment: string | null;
  readonly readOnly: boolean;
  readonly links: readonly DashboardLink[];
  /** Version of this package. */
  readonly version: string;
  /** Time of the server, in milliseconds since the epoch. */
  readonly now: number;
}
