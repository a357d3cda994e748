/**
 * What a client or an orchestration needs to know of an orchestration: its name, its version, its types.
 * The phantom fields carry types only; they never exist at run time. Each type is wrapped in a tuple: inference
 * from an optional property drops `undefined` from its type unless `exactOptionalPropertyTypes` is on.
 */
export interface OrchestrationRef<Input = unknown, Output = unknown> {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string;
  /** Validates an input where it enters: at `start` and `child`. */
  readonly inputSchema?: StandardSchema | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** What an orchestration needs to know of an activity. */
export interface ActivityRef<Input = unknown, Output = unknown> {
  readonly kind: 'activity';
  readonly name: string;
  readonly inputSchema?: StandardSchema | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** What a client needs to know of a task: its name, its types, and what a run gets unless it says otherwise. */
export interface TaskRef<Input = unknown, Output = unknown> {
  readonly kind: 'task';
  readonly name: string;
  readonly inputSchema?: StandardSchema | undefined;
  readonly runDefaults?: TaskRunDefaults | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** What holds for the runs of a task that do not choose themselves. */
export interface TaskRunDefaults {
  readonly priority?: number | undefined;
  readonly expiresInMs?: number | undefined;
  /** Whether a handler is to be run after a failure. */
  readonly onFail: boolean;
}

/** What a schedule needs to know of a flow: the orchestration that runs it, and the graph that each run is given. */
export interface FlowRef<Input = unknown, Output = unknown> {
  readonly kind: 'flow';
  readonly name: string;
  readonly graph: object;
  readonly orchestration: OrchestrationRef;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** The name of an external event, the type that is raised (`Value`) and the type that its schema makes of it (`Parsed`). */
export interface EventToken<Value = unknown, Parsed = Value> {
  readonly kind: 'event';
  readonly name: string;
  readonly schema?: StandardSchema | undefined;
  readonly '~value'?: readonly [Value];
  readonly '~parsed'?: readonly [Parsed];
}

/** The part of the Standard Schema interface that Perdure uses; zod, valibot and arktype schemas have it. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The version of the orchestration that runs a flow, and so of every run of one. It tells runs of flows apart in lists. */
export const flowVersion = 'flow-1';

/**
 * Orders versions by their numbers where they have some: '1.10' is above '1.9', '2' above '1.10', and a
 * pre-release ('2.0-beta') below its release. Different versions are never equal, so there is always one newest.
 */
export function compareVersions(a: string, b: string): number {
  const [releaseA, preReleaseA] = split(a);
  const [releaseB, preReleaseB] = split(b);
  return (
    compareParts(releaseA, releaseB) ||
    Number(preReleaseA === undefined) - Number(preReleaseB === undefined) ||
    compareParts(preReleaseA ?? '', preReleaseB ?? '') ||
    compareText(a, b)
  );
}

/** A dash after a number begins a pre-release, as in '2.0.0-beta.1'; in '2026-11-15' it separates numbers. */
function split(version: string): [release: string, preRelease: string | undefined] {
  const match = /^(.*?\d)-([^\d].*)$/.exec(version);
  return match === null ? [version, undefined] : [match[1] ?? '', match[2]];
}

function compareParts(a: string, b: string): number {
  const partsA = a.match(/\d+|\D+/g) ?? [];
  const partsB = b.match(/\d+|\D+/g) ?? [];
  for (const [index, partA] of partsA.entries()) {
    const partB = partsB[index];
    if (partB === undefined) return 1;
    const difference = comparePart(partA, partB);
    if (difference !== 0) return difference;
  }
  return partsA.length - partsB.length;
}

function comparePart(a: string, b: string): number {
  const numbers = /^\d/.test(a) && /^\d/.test(b);
  return numbers ? compareNumbers(a, b) : compareText(a, b);
}

// As text, because a number such as 20261115120000123 is too long for arithmetic.
function compareNumbers(a: string, b: string): number {
  const digitsA = a.replace(/^0+/, '');
  const digitsB = b.replace(/^0+/, '');
  return digitsA.length - digitsB.length || compareText(digitsA, digitsB);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
