import type { Target, Terminal } from '../command.ts';
import { CliError } from '../cli-error.ts';
import { packageVersion } from '../../server/package-version.ts';
import type { TargetChoice } from './choose-target.ts';

/** A target with its clean-up. */
export interface OpenedTarget extends Target {
  close(): Promise<void>;
}

// A person waits: fail soon instead of waiting for a lock or a server for long.
const busyTimeoutMs = 5_000;
const retryFor = '3s';

/** Opens a store without migrating it, or connects to a server. Loads only the modules of that kind. */
export function openTarget(choice: TargetChoice, terminal: Terminal): Promise<OpenedTarget> {
  return choice.kind === 'server' ? openServer(choice, terminal) : openStore(choice);
}

async function openStore(
  choice: Extract<TargetChoice, { readonly kind: 'store' }>,
): Promise<OpenedTarget> {
  const [{ LocalClient }, { systemClock }, provider] = await Promise.all([
    import('../../client/local-client.ts'),
    import('../../model/clock.ts'),
    choice.isPostgres ? openPostgresStore(choice) : openSqliteStore(choice.store),
  ]);
  const client = new LocalClient({ provider, clock: provider.clock ?? systemClock });
  return {
    client,
    choice,
    label: choice.label,
    close: async () => {
      await client.close();
      await provider.close();
    },
  };
}

async function openSqliteStore(path: string) {
  const { openSqlite } = await import('../../sqlite.ts');
  return openSqlite({ path, migrate: false, busyTimeoutMs });
}

async function openPostgresStore({
  store,
  schema,
}: Extract<TargetChoice, { readonly kind: 'store' }>) {
  const { openPostgres } = await import('../../postgres.ts');
  return openPostgres({
    url: store,
    migrate: false,
    poolSize: 2,
    retryMs: 3_000,
    applicationName: 'perdure cli',
    ...(schema !== undefined && { schema }),
  });
}

async function openServer(
  choice: Extract<TargetChoice, { readonly kind: 'server' }>,
  terminal: Terminal,
): Promise<OpenedTarget> {
  const { connect } = await import('../../remote.ts');
  const { url, token, allowInsecureHttp } = choice;
  const options = { ...(token !== undefined && { token }), allowInsecureHttp, retryFor };
  const connection = await connect(url, options).catch(async (error: unknown) => {
    // `connect` has not sent the token if the connection is not private, so neither must this.
    const isInvalid = (error as { readonly code?: unknown }).code === 'INVALID_OPTION';
    throw isInvalid ? error : withVersion(error, await readServerVersion(choice));
  });
  warnAboutVersion(await readServerVersion(choice), terminal);
  return {
    client: connection.client,
    choice,
    label: choice.label,
    close: () => connection.close(),
  };
}

/** Returns the version of the server; `undefined` if it does not say. */
async function readServerVersion({
  url,
  token,
}: Extract<TargetChoice, { readonly kind: 'server' }>): Promise<string | undefined> {
  try {
    const response = await fetch(`${url.replace(/\/+$/, '')}/v1/me`, {
      redirect: 'error',
      signal: AbortSignal.timeout(3_000),
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    });
    const body = (await response.json()) as { readonly server?: { readonly version?: unknown } };
    const version = body.server?.version;
    // It becomes part of a command that a person copies.
    return typeof version === 'string' && /^[\w.+-]{1,40}$/.test(version) ? version : undefined;
  } catch {
    return undefined; // The call of the command reports the error.
  }
}

function isCompatible(version: string): boolean {
  const release = (text: string) => text.split('.').slice(0, 2).join('.');
  return release(version) === release(packageVersion());
}

function warnAboutVersion(version: string | undefined, { stderr }: Terminal): void {
  if (version === undefined || isCompatible(version)) return;
  stderr.write(`${stderr.style('yellow', 'warning:')} ${differs(version)}\n`);
}

function differs(version: string): string {
  return `The server runs Perdure ${version}, this is ${packageVersion()}. Use \`npx perdure@${version}\` if a command fails.`;
}

/** Adds the version of the server to the error of a connection, if it may be the cause. */
function withVersion(error: unknown, version: string | undefined): unknown {
  if (version === undefined || isCompatible(version)) return error;
  const { code = 'PROVIDER', message } = error as {
    readonly code?: string;
    readonly message: string;
  };
  return new CliError(5, code, message, differs(version));
}
