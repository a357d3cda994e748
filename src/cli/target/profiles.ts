import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { closestName } from '../../model/closest-name.ts';
import { usage } from '../cli-error.ts';
import type { Terminal } from '../command.ts';
import { parseJson } from '../read-json.ts';

/** A named store or server of a configuration file. */
export interface Profile {
  /** The path of an SQLite file, relative to the configuration file, or a PostgreSQL URL. */
  readonly store?: string;
  /** Schema of a PostgreSQL store. */
  readonly schema?: string;
  /** URL of a server. */
  readonly server?: string;
  /** File with the token of the server, relative to the configuration file. */
  readonly tokenFile?: string;
  /** Allow the token over plain `http` to another host. */
  readonly allowInsecureHttp?: boolean;
}

const keys = ['store', 'schema', 'server', 'tokenFile', 'allowInsecureHttp'] as const;

type Surroundings = Pick<Terminal, 'cwd' | 'home' | 'env'>;

/** The configuration files, the nearest first: that of the project, then that of the user. */
function configurationFiles({ cwd, home, env }: Surroundings): readonly string[] {
  const project = join(cwd, 'perdure.config.json');
  const base = env['XDG_CONFIG_HOME'] || (home === undefined ? undefined : join(home, '.config'));
  return base === undefined ? [project] : [project, join(base, 'perdure', 'config.json')];
}

/** Returns a profile of the configuration files; `undefined` if there is no such profile. */
export function findProfile(name: string, surroundings: Surroundings): Profile | undefined {
  for (const file of configurationFiles(surroundings)) {
    const profiles = readProfiles(file);
    const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
    if (found !== undefined) return readProfile(found, name, file);
  }
  return undefined;
}

/** The error of an unknown profile, with the near miss. */
export function unknownProfile(name: string, surroundings: Surroundings): Error {
  const files = configurationFiles(surroundings);
  const names = files.flatMap((file) => Object.keys(readProfiles(file)));
  const near = closestName(name, names);
  return usage(
    `Unknown profile ${JSON.stringify(name)}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
    names.length === 0
      ? `Add it to ${files[0] ?? 'perdure.config.json'}: {"profiles": {${JSON.stringify(name)}: {"store": "app.db"}}}`
      : `Profiles: ${[...new Set(names)].join(', ')}.`,
  );
}

function readProfiles(file: string): Readonly<Record<string, unknown>> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return {};
    throw usage(`Cannot read the configuration ${JSON.stringify(file)} (${code ?? 'unknown'}).`);
  }
  let parsed: unknown;
  try {
    parsed = parseJson(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw usage(`Invalid JSON in the configuration ${JSON.stringify(file)}: ${reason}.`);
  }
  const { profiles = {} } = (parsed ?? {}) as { readonly profiles?: unknown };
  if (typeof profiles === 'object' && profiles !== null && !Array.isArray(profiles)) {
    return profiles as Readonly<Record<string, unknown>>;
  }
  throw usage(`Invalid \`profiles\` in ${JSON.stringify(file)}: use an object of profiles.`);
}

function readProfile(value: unknown, name: string, file: string): Profile {
  const where = `profile ${JSON.stringify(name)} of ${JSON.stringify(file)}`;
  if (typeof value !== 'object' || value === null) throw usage(`Invalid ${where}: use an object.`);
  const given = value as Readonly<Record<string, unknown>>;
  for (const [key, one] of Object.entries(given)) {
    const isKnown = keys.some((known) => known === key);
    const near = closestName(key, keys);
    if (!isKnown) {
      throw usage(
        `Unknown field ${JSON.stringify(key)} in ${where}.${near === undefined ? '' : ` Did you mean \`${near}\`?`}`,
        `Fields: ${keys.join(', ')}.`,
      );
    }
    const wanted = key === 'allowInsecureHttp' ? 'boolean' : 'string';
    if (typeof one !== wanted) throw usage(`Invalid \`${key}\` in ${where}: use a ${wanted}.`);
  }
  const profile = given as Profile;
  const folder = dirname(file);
  return {
    ...profile,
    ...(profile.store !== undefined && {
      store: isUrl(profile.store) ? profile.store : resolve(folder, profile.store),
    }),
    ...(profile.tokenFile !== undefined && { tokenFile: resolve(folder, profile.tokenFile) }),
  };
}

/** Whether a store is named by a URL, and not by a path. */
export function isUrl(store: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(store);
}
