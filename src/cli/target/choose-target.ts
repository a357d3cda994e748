import { existsSync, readFileSync, statSync, type Stats } from 'node:fs';
import { join, resolve } from 'node:path';
import { CliError, usage } from '../cli-error.ts';
import type { Command, ParsedOptions, Terminal } from '../command.ts';
import { findProfile, isUrl, unknownProfile, type Profile } from './profiles.ts';

/** What chose a target: an option, a profile of a configuration file, the environment, or the default file. */
type TargetSource =
  | { readonly kind: 'option' | 'environment' | 'file' }
  | { readonly kind: 'profile'; readonly name: string };

/** The store or server of a call. */
export type TargetChoice =
  | {
      readonly kind: 'store';
      readonly source: TargetSource;
      /** The absolute path of an SQLite file, or a PostgreSQL URL. */
      readonly store: string;
      readonly isPostgres: boolean;
      /** Schema of a PostgreSQL store. */
      readonly schema?: string;
      /** The value of `--schema`. */
      readonly givenSchema?: string;
      /** The name in messages, without secrets. */
      readonly label: string;
    }
  | {
      readonly kind: 'server';
      readonly source: TargetSource;
      readonly url: string;
      readonly token?: string;
      /** The value of `--token-file`. */
      readonly givenTokenFile?: string;
      readonly allowInsecureHttp: boolean;
      readonly label: string;
    };

/** The file that is used if it exists and no other store is chosen. */
export const defaultStore = 'perdure.db';

/**
 * Chooses the store or server of a call: the options, then `--profile`, then the environment, then the profile `default`, then
 * `./perdure.db`. Throws a usage error if there is none.
 */
export function chooseTarget(
  command: Pick<Command, 'needs' | 'name'>,
  options: ParsedOptions,
  terminal: Terminal,
): TargetChoice {
  const mayConnect = command.needs === 'target';
  const given = mayConnect
    ? { server: options.text('server'), tokenFile: options.text('token-file') }
    : { server: undefined, tokenFile: undefined };
  const store = options.text('store');
  const schema = options.text('schema');
  if (store !== undefined && given.server !== undefined) {
    throw usage('Pass --store or --server, not both.');
  }
  const found = findSource({ store, server: given.server }, options, terminal);
  const { profile, from, source } = found;
  const choice = { ...profile, ...(schema !== undefined && { schema }) };
  if (choice.store !== undefined && choice.server !== undefined) {
    throw usage(`${from} has a store and a server. Keep one of them.`);
  }
  if (choice.server !== undefined) {
    if (!mayConnect) {
      throw usage(
        `\`perdure ${command.name}\` needs a store, but ${from} chooses a server.`,
        'Pass --store with a path or a PostgreSQL URL.',
      );
    }
    const { tokenFile } = given;
    return toServer({ ...choice, server: choice.server, source }, tokenFile, terminal);
  }
  if (choice.store !== undefined) {
    if (given.tokenFile !== undefined) {
      throw usage('--token-file needs a server. Pass --server, or leave it out.');
    }
    if (from === '--store') warnAboutPassword(choice.store, terminal);
    const chosen = toStore(choice.store, { ...choice, from, source, cwd: terminal.cwd });
    return { ...chosen, ...(schema !== undefined && { givenSchema: schema }) };
  }
  throw new CliError(
    2,
    'NO_TARGET',
    'No store and no server is chosen.',
    `Pass --store <path | url>${mayConnect ? ' or --server <url>' : ''}, set PERDURE_STORE${mayConnect ? ' or PERDURE_SERVER' : ''}, or run \`perdure init\` for a new project.`,
  );
}

function findSource(
  given: { readonly store: string | undefined; readonly server: string | undefined },
  options: ParsedOptions,
  terminal: Terminal,
): { readonly profile: Profile; readonly from: string; readonly source: TargetSource } {
  const { env, cwd } = terminal;
  if (given.store !== undefined) {
    return { profile: { store: given.store }, from: '--store', source: { kind: 'option' } };
  }
  const name = options.text('profile');
  if (given.server !== undefined) {
    return { profile: { server: given.server }, from: '--server', source: { kind: 'option' } };
  }
  if (name !== undefined) {
    const profile = findProfile(name, terminal);
    if (profile === undefined) throw unknownProfile(name, terminal);
    return { profile, from: `Profile ${JSON.stringify(name)}`, source: { kind: 'profile', name } };
  }
  const [store, server] = [env['PERDURE_STORE'] || undefined, env['PERDURE_SERVER'] || undefined];
  if (store !== undefined || server !== undefined) {
    return {
      profile: { ...(store !== undefined && { store }), ...(server !== undefined && { server }) },
      from: 'The environment (PERDURE_STORE, PERDURE_SERVER)',
      source: { kind: 'environment' },
    };
  }
  const profile = findProfile('default', terminal);
  if (profile !== undefined) {
    return { profile, from: 'Profile "default"', source: { kind: 'profile', name: 'default' } };
  }
  const file = join(cwd, defaultStore);
  return existsSync(file)
    ? { profile: { store: file }, from: `./${defaultStore}`, source: { kind: 'file' } }
    : { profile: {}, from: '', source: { kind: 'file' } };
}

function toStore(
  store: string,
  given: {
    readonly schema?: string;
    readonly from: string;
    readonly source: TargetSource;
    readonly cwd: string;
  },
): Extract<TargetChoice, { readonly kind: 'store' }> {
  const { schema, from, source, cwd } = given;
  if (store.trim() === '') {
    throw usage(`${from} is empty.`, 'Use the path of an SQLite file, or a PostgreSQL URL.');
  }
  const isPostgres = /^postgres(?:ql)?:\/\//i.test(store);
  if (!isPostgres && isUrl(store)) {
    const [scheme] = store.split(':');
    throw usage(
      `${from} begins with \`${scheme}://\`, which is no store.`,
      'Use the path of an SQLite file, or a URL that begins with postgres://.',
    );
  }
  if (!isPostgres && schema !== undefined) {
    throw usage('--schema needs a PostgreSQL store. Leave it out.');
  }
  if (store === ':memory:') {
    throw usage(
      `${from} is :memory:, a store that ends with its process.`,
      'Use the path of a file, which the worker, the server and other commands share.',
    );
  }
  const path = isPostgres ? store : resolve(cwd, store);
  const stats = isPostgres ? undefined : statsOf(path);
  if (stats?.isDirectory() === true) {
    throw usage(
      `${from} is a directory: ${JSON.stringify(store)}.`,
      `Use the path of a file in it, such as ${JSON.stringify(join(store, defaultStore))}.`,
    );
  }
  // A device, a pipe or a socket.
  if (stats?.isFile() === false) {
    throw usage(
      `${from} is no regular file: ${JSON.stringify(store)}.`,
      'Use the path of an SQLite file.',
    );
  }
  return {
    kind: 'store',
    source,
    store: path,
    isPostgres,
    ...(schema !== undefined && { schema }),
    label: isPostgres ? withoutSecrets(store) : store,
  };
}

function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined; // The opening of the store reports the error.
  }
}

function toServer(
  profile: Profile & { readonly server: string; readonly source: TargetSource },
  tokenFile: string | undefined,
  terminal: Terminal,
): TargetChoice {
  const { env, cwd } = terminal;
  const { server, tokenFile: profileFile, allowInsecureHttp = false } = profile;
  const fromFile = tokenFile === undefined ? undefined : resolve(cwd, tokenFile);
  const fromEnvironment = env['PERDURE_TOKEN'] || undefined;
  const token =
    fromFile !== undefined
      ? readToken(fromFile)
      : (fromEnvironment ?? (profileFile === undefined ? undefined : readToken(profileFile)));
  return {
    kind: 'server',
    source: profile.source,
    url: server,
    ...(token !== undefined && { token }),
    ...(tokenFile !== undefined && { givenTokenFile: tokenFile }),
    allowInsecureHttp,
    label: withoutSecrets(server),
  };
}

function readToken(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw usage(
      `Cannot read the token file ${JSON.stringify(file)} (${code ?? 'unknown'}).`,
      'Check the path and its permissions, or set PERDURE_TOKEN.',
    );
  }
  if (text !== '') return text;
  throw usage(`The token file ${JSON.stringify(file)} is empty.`);
}

/** Other users of the machine can read the arguments of a process. */
function warnAboutPassword(store: string, { stderr }: Terminal): void {
  if (!/^[a-z+]+:\/\/(?:[^/@]*:[^/@]+@|.*[?&]password=)/i.test(store)) return;
  stderr.write(
    `${stderr.style('yellow', 'warning:')} --store has a password, which other users of this machine can read. Use PERDURE_STORE or a profile.\n`,
  );
}

/** Returns a URL without its user, password and query. */
function withoutSecrets(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url);
    return `${protocol}//${host}${pathname === '/' ? '' : pathname}`;
  } catch {
    return '(an invalid URL)';
  }
}
