/**
 * A reference to an orchestration: its name, version and types. The phantom fields `~input` and `~output` carry types only
 * and never exist at run time. Each type is wrapped in a tuple: without `exactOptionalPropertyTypes`, inference from an
 * optional property drops `undefined`.
 */
export interface OrchestrationRef<Input = unknown, Output = unknown> {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string;
  /** Validates the input of `start` and `child`. */
  readonly inputSchema?: StandardSchema | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** A reference to an activity: its name and types. */
export interface ActivityRef<Input = unknown, Output = unknown> {
  readonly kind: 'activity';
  readonly name: string;
  readonly inputSchema?: StandardSchema | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** A reference to a task: its name, types and default run options. */
export interface TaskRef<Input = unknown, Output = unknown> {
  readonly kind: 'task';
  readonly name: string;
  readonly inputSchema?: StandardSchema | undefined;
  readonly runDefaults?: TaskRunDefaults | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** Default options for the runs of a task. */
export interface TaskRunDefaults {
  readonly priority?: number | undefined;
  readonly expiresInMs?: number | undefined;
  /** Whether the task has an `onFail` handler. */
  readonly onFail: boolean;
}

/** A reference to a flow: the orchestration that runs it, and the graph of its steps. */
export interface FlowRef<Input = unknown, Output = unknown> {
  readonly kind: 'flow';
  readonly name: string;
  readonly graph: object;
  readonly orchestration: OrchestrationRef;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
}

/** An external event: its name, the raised type (`Value`) and the type after its schema (`Parsed`). */
export interface EventToken<Value = unknown, Parsed = Value> {
  readonly kind: 'event';
  readonly name: string;
  readonly schema?: StandardSchema | undefined;
  readonly '~value'?: readonly [Value];
  readonly '~parsed'?: readonly [Parsed];
}

/** An update: its name, the type of its input, of its reply, and of the input after its schema (`Parsed`). */
export interface UpdateToken<Input = unknown, Output = unknown, Parsed = Input> {
  readonly kind: 'update';
  readonly name: string;
  readonly inputSchema?: StandardSchema | undefined;
  readonly '~input'?: readonly [Input];
  readonly '~output'?: readonly [Output];
  readonly '~parsed'?: readonly [Parsed];
}

/** The part of Standard Schema that Perdure uses. Schemas of zod, valibot and arktype implement it. */
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

/** The version of the orchestration that runs flows. Runs of flows have it in lists. */
export const flowVersion = 'flow-1';

/**
 * Compares versions, numerically where they contain numbers: '1.10' > '1.9', '2' > '1.10', and a pre-release ('2.0-beta')
 * is below its release. Different versions are never equal, so one is always the newest.
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

/** Splits off a pre-release: '2.0.0-beta.1' has one, '2026-11-15' has none. */
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

// Compares text: a number such as 20261115120000123 is not a safe integer.
function compareNumbers(a: string, b: string): number {
  const digitsA = a.replace(/^0+/, '');
  const digitsB = b.replace(/^0+/, '');
  return digitsA.length - digitsB.length || compareText(digitsA, digitsB);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
