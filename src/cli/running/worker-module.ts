import { pathToFileURL } from 'node:url';
import { CliError, usage } from '../cli-error.ts';
import type { StartWorkerOptions } from '../../perdure.ts';

/** The definitions and options of a worker, from the exports of a module. */
interface WorkerModule {
  readonly options: StartWorkerOptions;
  /** `3 orchestrations, 2 tasks`. */
  readonly summary: string;
}

type Kind = 'orchestration' | 'activity' | 'task' | 'flow';
type Lists = Required<
  Pick<StartWorkerOptions, 'orchestrations' | 'activities' | 'tasks' | 'flows'>
>;

const lists = {
  orchestration: ['orchestrations', 'orchestration', 'orchestrations'],
  flow: ['flows', 'flow', 'flows'],
  activity: ['activities', 'activity', 'activities'],
  task: ['tasks', 'task', 'tasks'],
} as const satisfies Record<Kind, readonly [keyof Lists, string, string]>;

/**
 * Loads a module and registers what it exports: every orchestration, activity, task and flow, by any name, also in arrays. A
 * default export that is no definition has the options of `startWorker()`.
 */
export async function loadWorkerModule(file: string, name = file): Promise<WorkerModule> {
  return readWorkerModule(await importFile(file, name), name);
}

async function importFile(file: string, name: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await importModule(file, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException | null)?.code !== 'ERR_UNKNOWN_FILE_EXTENSION') throw error;
    throw usage(
      `Node.js ${process.version} cannot load ${JSON.stringify(name)}.`,
      'Use Node.js 22.18 or newer for TypeScript, or pass a JavaScript file.',
    );
  }
}

/** Imports a file. Rejects if an `await` at its top level never settles, which would end the process without a message. */
export async function importModule(
  file: string,
  name: string,
): Promise<Readonly<Record<string, unknown>>> {
  const stuck = Promise.withResolvers<never>();
  const onIdle = () => stuck.reject(neverLoads(name));
  // Nothing is left that could settle the import.
  process.once('beforeExit', onIdle);
  try {
    const loaded = import(pathToFileURL(file).href) as Promise<Readonly<Record<string, unknown>>>;
    return await Promise.race([loaded, stuck.promise]);
  } finally {
    process.off('beforeExit', onIdle);
  }
}

function neverLoads(name: string): CliError {
  return new CliError(
    1,
    'NEVER_LOADED',
    `${name} never finishes loading: an \`await\` at its top level does not settle.`,
    'Move the work into a function, or into a handler.',
  );
}

/** Reads the exports of a module. Throws if there is no definition. */
export function readWorkerModule(
  module: Readonly<Record<string, unknown>>,
  name: string,
): WorkerModule {
  const { default: byDefault, ...named } = module;
  const given = isWorkerOptions(byDefault) ? byDefault : {};
  const inOptions: readonly unknown[] = Object.values(lists).map(([key]) => given[key]);
  const values: readonly unknown[] = [
    ...Object.values(named),
    ...(isWorkerOptions(byDefault) ? inOptions : [byDefault]),
  ].flat();
  const found = (kind: Kind): readonly unknown[] => [
    ...new Set(values.filter((value) => kindOf(value) === kind)),
  ];
  const counts = (Object.keys(lists) as Kind[])
    .map((kind) => ({ kind, count: found(kind).length }))
    .filter(({ count }) => count > 0);
  if (counts.length === 0) throw noDefinitions(name);
  const definitions = Object.fromEntries(
    (Object.keys(lists) as Kind[]).map((kind) => [lists[kind][0], found(kind)]),
  ) as unknown as Lists;
  return {
    options: { ...given, ...definitions },
    summary: counts
      .map(({ kind, count }) => `${count} ${lists[kind][count === 1 ? 1 : 2]}`)
      .join(', '),
  };
}

function kindOf(value: unknown): Kind | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { kind, name } = value as { readonly kind?: unknown; readonly name?: unknown };
  const isKnown = typeof kind === 'string' && Object.hasOwn(lists, kind);
  return isKnown && typeof name === 'string' ? (kind as Kind) : undefined;
}

function isWorkerOptions(value: unknown): value is StartWorkerOptions {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    kindOf(value) === undefined
  );
}

function noDefinitions(name: string): CliError {
  return new CliError(
    1,
    'NO_DEFINITIONS',
    `${name} exports no orchestration, activity, task or flow.`,
    "Export them, for example `export const hello = orchestration('hello', …)`. A program that starts its own worker runs with `node`.",
  );
}
