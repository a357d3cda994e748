import { invalidOption, readFields } from '../../model/option-fields.ts';
import { toMs, type Duration } from '../../model/values/duration.ts';
import type { HandlerOptions } from '../../server/handler.ts';
import type { DashboardLink } from './session-state.ts';

/** Appearance and login of a dashboard. */
export interface DashboardSettings {
  /** Rejects every write with 403 `READ_ONLY`, whatever the role of the caller. Default: false. */
  readonly readOnly?: boolean | undefined;
  /** Title of the pages. Default: `Perdure`. */
  readonly title?: string | undefined;
  /** Name of the environment, shown as a badge: `'production'`. */
  readonly environment?: string | undefined;
  /** Links of every instance. At most 20. */
  readonly links?: readonly DashboardLink[] | undefined;
  /** A login session ends after this time without a request to the API. Default: 30 minutes. */
  readonly sessionIdle?: Duration | undefined;
  /** A login session ends after this time. Default: 12 hours. */
  readonly sessionMaxAge?: Duration | undefined;
}

/** Options of `dashboard`: those of `createHandler`, the path, and the settings of the dashboard. */
export interface DashboardOptions extends HandlerOptions, DashboardSettings {
  /** Path of the dashboard in its host, with a slash at both ends: `'/admin/perdure/'`. Default: `/`. */
  readonly basePath?: string | undefined;
}

/** Validated settings. */
export interface CheckedSettings {
  readonly readOnly: boolean;
  readonly title: string;
  readonly environment: string | null;
  readonly links: readonly DashboardLink[];
  readonly sessionIdleMs: number;
  readonly sessionMaxAgeMs: number;
}

/** Names of the settings. */
export const settingNames = [
  'readOnly',
  'title',
  'environment',
  'links',
  'sessionIdle',
  'sessionMaxAge',
] as const satisfies readonly (keyof DashboardSettings)[];

const maxLinks = 20;
const maxTextLength = 100;
const maxHrefLength = 2_000;
const minSessionMs = 1_000;

/** Validates settings. Throws `INVALID_OPTION` for invalid values. */
export function readSettings(settings: unknown, where: string): CheckedSettings {
  const given = readFields(settings, where, settingNames);
  const { readOnly = false, title = 'Perdure', environment, links = [] } = given;
  if (typeof readOnly !== 'boolean') throw invalidOption('readOnly', readOnly, 'a boolean');
  if (!Array.isArray(links) || links.length > maxLinks) {
    throw invalidOption('links', links, `an array of at most ${maxLinks} links`);
  }
  return {
    readOnly,
    title: readText('title', title),
    environment: environment === undefined ? null : readText('environment', environment),
    links: links.map(readLink),
    sessionIdleMs: readLifetime('sessionIdle', given.sessionIdle ?? '30m'),
    sessionMaxAgeMs: readLifetime('sessionMaxAge', given.sessionMaxAge ?? '12h'),
  };
}

function readText(option: string, value: unknown): string {
  if (typeof value === 'string' && value !== '' && value.length <= maxTextLength) return value;
  throw invalidOption(option, value, `text of 1 to ${maxTextLength} characters`);
}

function readLifetime(option: string, value: unknown): number {
  const ms = toMs(value as Duration, option);
  if (ms >= minSessionMs) return ms;
  throw invalidOption(option, value, 'a duration of at least 1s');
}

function readLink(link: unknown, index: number): DashboardLink {
  const what = `links[${index}]`;
  const { label, href } = readFields(link, what, ['label', 'href']);
  // No placeholder before the path: the name of an instance must not choose the host.
  const isValid =
    typeof href === 'string' &&
    href.length <= maxHrefLength &&
    /^(https?:\/\/[^/\\{}\s@]+)?\/(?![/\\])\S*$/.test(href);
  if (!isValid) {
    throw invalidOption(
      `${what}.href`,
      href,
      "a path or an http(s) URL like 'https://logs.example.com/?id={id}'",
    );
  }
  return { label: readText(`${what}.label`, label), href };
}

/** Validates the path of a dashboard. Throws `INVALID_OPTION` unless it has a slash at both ends. */
export function readBasePath(basePath: unknown = '/'): string {
  const isValid = typeof basePath === 'string' && /^\/(?:[\w~-][\w.~-]*\/)*$/.test(basePath);
  if (isValid) return basePath;
  throw invalidOption('basePath', basePath, "a path with a slash at both ends, like '/admin/'");
}
