import {
  type ActivityDefinition,
  type ActivityDefaults,
  type EventToken,
  type OnAbandoned,
  type StandardSchema,
} from '../../index.ts';
import { onFailActivity, stepActivities, type StepCode } from '../interpreter/step-activities.ts';
import type { StepContext } from '../interpreter/step-context.ts';
import { requireCondition } from './condition.ts';
import { defineFlow, type FlowOptions } from './flow-definition.ts';
import { toLane } from './step-lane.ts';
import { invalidFlow, quote, type FlowFailure } from './flow-errors.ts';
import { checkGraph, checkReachable, checkStepName } from './graph-check.ts';
import {
  callOptionNames,
  freezeCall,
  inputName,
  pickCall,
  signalEvent,
  terminalSteps,
  type FlowGraph,
  type StepNode,
} from './graph.ts';
import { pathOf, referencesTo, referenceTo, type Path } from './reference.ts';

/** The options of all kinds of steps, untyped. */
interface UntypedStepOptions extends ActivityDefaults {
  readonly key?: unknown;
  readonly weight?: unknown;
  readonly needs?: readonly string[] | undefined;
  readonly optional?: readonly string[] | undefined;
  readonly after?: readonly string[] | undefined;
  readonly when?: ((references: object) => unknown) | undefined;
  readonly signal?: unknown;
  readonly over?: ((references: object) => unknown) | undefined;
  readonly concurrency?: number | undefined;
  readonly batch?: number | undefined;
  readonly initial?: unknown;
  readonly resumes?: boolean | undefined;
}

interface Parts {
  readonly name: string;
  readonly options: FlowOptions;
  readonly nodes: readonly StepNode[];
  readonly activities: readonly ActivityDefinition[];
  /** The schemas of signals, by name. */
  readonly signals?: ReadonlyMap<string, StandardSchema>;
  readonly schema?: StandardSchema | undefined;
  readonly onFail?: FlowGraph['onFail'];
  readonly onAbandoned?: OnAbandoned<unknown> | undefined;
}

const maxEventBytes = 256;

const shared = [
  'needs',
  'optional',
  'after',
  'when',
  'signal',
  'key',
  'weight',
  ...callOptionNames,
];
const known: Readonly<Record<StepNode['kind'], readonly string[]>> = {
  step: shared,
  map: [...shared, 'over', 'concurrency'],
  generator: [...shared, 'concurrency', 'resumes'],
  reduce: [...shared, 'over', 'batch', 'initial'],
};

/** Collects the steps of a flow. Each call returns a new builder, so flows can share their first steps. */
export class FlowBuilder {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  input(schema?: StandardSchema): FlowBuilder {
    return schema === undefined ? this : this.#with({ schema });
  }

  completesEarly(): FlowBuilder {
    return this;
  }

  step(name: string, ...rest: readonly unknown[]): FlowBuilder {
    const [options, handler] = rest.length > 1 ? rest : [{}, rest[0]];
    return this.#add(name, options, { kind: 'step', handler } as StepCode);
  }

  map(name: string, options: unknown, handler: unknown): FlowBuilder {
    return this.#add(name, options, { kind: 'map', handler } as StepCode);
  }

  generator(name: string, options: unknown, generate: unknown, handler: unknown): FlowBuilder {
    const { resumes = false } = (options ?? {}) as UntypedStepOptions;
    return this.#add(name, options, { kind: 'generator', generate, resumes, handler } as StepCode);
  }

  reduce(name: string, options: unknown, handler: unknown): FlowBuilder {
    return this.#add(name, options, { kind: 'reduce', handler } as StepCode);
  }

  onFail(
    handler: (ctx: StepContext, failure: FlowFailure) => unknown,
    options: ActivityDefaults = {},
  ): FlowBuilder {
    const { name, activities, onFail } = this.#parts;
    if (onFail !== undefined) {
      throw invalidFlow(`Flow ${quote(name)} has two on-fail handlers. Combine them into one.`);
    }
    requireFunction(handler, `The on-fail handler of flow ${quote(name)}`);
    const call = freezeCall(options);
    return this.#with({
      activities: [...activities, onFailActivity(name, handler, options)],
      onFail: call === undefined ? {} : { call },
    });
  }

  onAbandoned(handler: OnAbandoned<unknown>): FlowBuilder {
    const { name, onAbandoned } = this.#parts;
    if (onAbandoned !== undefined) {
      throw invalidFlow(`Flow ${quote(name)} has two onAbandoned handlers. Combine them into one.`);
    }
    requireFunction(handler, `The onAbandoned handler of flow ${quote(name)}`);
    return this.#with({ onAbandoned: handler });
  }

  output(...names: readonly string[]) {
    const {
      name,
      options,
      nodes,
      activities,
      signals = new Map(),
      schema,
      onFail,
      onAbandoned,
    } = this.#parts;
    const graph: FlowGraph = frozenCopy<FlowGraph>({
      format: 1,
      name,
      steps: nodes,
      output: names.length > 0 ? names : terminalSteps(nodes),
      ...(onFail !== undefined && { onFail }),
    });
    checkGraph(graph);
    if (names.length > 0) checkReachable(graph);
    return defineFlow({ graph, options, schema, activities, signals, onAbandoned });
  }

  #add(givenName: unknown, givenOptions: unknown, code: StepCode): FlowBuilder {
    const { name: flow, nodes, activities } = this.#parts;
    const name = checkStepName(flow, givenName);
    const what = `step ${quote(name)} of flow ${quote(flow)}`;
    requireFunction(code.handler, `The handler of ${what}`);
    if (code.kind === 'generator') requireFunction(code.generate, `The generator of ${what}`);
    const options = checkOptions(what, code.kind, givenOptions);
    const node = toNode({ name, what, kind: code.kind, options, earlier: nodes });
    const call = pickCall(options);
    return this.#with({
      nodes: [...nodes, node],
      ...withSchema(this.#parts.signals, options.signal),
      activities: nodes.some((other) => other.name === name)
        ? activities
        : [...activities, ...stepActivities({ flow, step: name, call }, code)],
    });
  }

  #with(change: Partial<Parts>): FlowBuilder {
    return new FlowBuilder({ ...this.#parts, ...change });
  }
}

function toNode(parts: {
  readonly name: string;
  readonly what: string;
  readonly kind: StepNode['kind'];
  readonly options: UntypedStepOptions;
  readonly earlier: readonly StepNode[];
}): StepNode {
  const { name, what, kind, options, earlier } = parts;
  const lists = {
    needs: list(what, 'needs', options),
    optional: list(what, 'optional', options),
    after: list(what, 'after', options),
  };
  const { when, signal, concurrency, batch, initial } = options;
  const seen = referencesTo(
    [inputName, ...lists.needs, ...lists.optional],
    `The condition of ${what}`,
  );
  const lane = toLane(what, options, [inputName, ...lists.needs, ...lists.optional]);
  const frozen = freezeCall(pickCall(options));
  const call = lane.call === undefined ? frozen : { ...frozen, ...lane.call };
  return {
    name,
    kind,
    ...lists,
    ...(kind === 'map' || kind === 'reduce' ? { over: toPath(what, options, earlier) } : {}),
    ...(when !== undefined && { when: requireCondition(`when of ${what}`, when(seen)) }),
    ...(signal !== undefined && { signal: signalName(what, signal) }),
    ...(concurrency !== undefined && { concurrency: count(what, 'concurrency', concurrency) }),
    ...(batch !== undefined && { batch: count(what, 'batch', batch) }),
    ...(initial !== undefined && { initial }),
    ...(call !== undefined && { call }),
    ...(lane.key !== undefined && { key: lane.key }),
  };
}

function toPath(what: string, { over }: UntypedStepOptions, earlier: readonly StepNode[]): Path {
  requireFunction(over, `\`over\` of ${what}`);
  // checkGraph() reports unknown steps, together with those of other dependencies.
  const sources = new Proxy({}, { get: (_, key) => referenceTo(String(key)) });
  const path = pathOf(over?.(sources));
  if (path !== undefined) return path;
  const names = [inputName, ...earlier.map(({ name }) => name)].join(', ');
  throw invalidFlow(
    `\`over\` of ${what} must return a reference, such as ({ input }) => input. Available: ${names}.`,
  );
}

function list(what: string, key: 'needs' | 'optional' | 'after', options: UntypedStepOptions) {
  const names: unknown = options[key] ?? [];
  if (Array.isArray(names) && names.every((name) => typeof name === 'string'))
    return names as readonly string[];
  throw invalidFlow(`\`${key}\` of ${what} must be an array of step names.`);
}

function withSchema(
  signals: Parts['signals'],
  signal: unknown,
): { readonly signals?: ReadonlyMap<string, StandardSchema> } {
  const { name, schema } = (signal ?? {}) as Partial<EventToken>;
  if (name === undefined || schema === undefined) return {};
  return { signals: new Map([...(signals ?? []), [name, schema]]) };
}

function signalName(what: string, signal: unknown): string {
  const { kind, name } = signal as { readonly kind?: unknown; readonly name?: unknown };
  if (kind !== 'event' || typeof name !== 'string') {
    throw invalidFlow(`\`signal\` of ${what} must be an event, created with event<Payload>(name).`);
  }
  // The event has a longer name than the signal. Check it here, before a run waits for it.
  if (Buffer.byteLength(signalEvent(name)) > maxEventBytes) {
    const most = maxEventBytes - signalEvent('').length;
    throw invalidFlow(`The signal name of ${what} exceeds ${most} bytes. Shorten it.`);
  }
  return name;
}

function count(what: string, key: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  throw invalidFlow(`Invalid \`${key}\` ${quote(value)} of ${what}: must be a positive integer.`);
}

function checkOptions(what: string, kind: StepNode['kind'], options: unknown): UntypedStepOptions {
  if (typeof options !== 'object' || options === null) {
    throw invalidFlow(`The options of ${what} must be an object.`);
  }
  const unknown = Object.keys(options).find((key) => !known[kind].includes(key));
  if (unknown === undefined) return options;
  throw invalidFlow(
    `Unknown option ${quote(unknown)} of ${what}. Options of a ${kind}: ${known[kind].join(', ')}.`,
  );
}

function requireFunction(value: unknown, what: string): void {
  if (typeof value === 'function') return;
  throw invalidFlow(`${what} must be a function: it is ${value === null ? 'null' : typeof value}.`);
}

/** Returns a deeply frozen copy of plain data. */
function frozenCopy<Value>(value: Value): Value {
  if (Array.isArray(value)) return Object.freeze(value.map(frozenCopy)) as Value;
  if (!isPlainObject(value)) return value;
  const entries = Object.entries(value).map(([key, part]) => [key, frozenCopy(part)] as const);
  return Object.freeze(Object.fromEntries(entries)) as Value;
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
