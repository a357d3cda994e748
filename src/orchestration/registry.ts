import { createHash } from 'node:crypto';
import { PerdureError } from '../model/failures/errors.ts';
import { compareVersions } from '../model/definition.ts';
import type { ActivityDefinition } from './activity.ts';
import { toScheduleDefaults, type ScheduleDefaults } from './call-options.ts';
import type { OrchestrationDefinition } from './orchestration.ts';

/** What a worker is told to run. */
export interface Definitions {
  readonly orchestrations?: readonly OrchestrationDefinition[] | undefined;
  readonly activities?: readonly ActivityDefinition[] | undefined;
}

/** A name and version that can be run; `version: null` stands for an instance whose version is not yet picked. */
export interface RegisteredName {
  readonly name: string;
  readonly version: string | null;
}

/** The code that a worker can run, by name and version. */
export class Registry {
  readonly #orchestrations = new Map<string, Map<string, OrchestrationDefinition>>();
  readonly #latest = new Map<string, OrchestrationDefinition>();
  readonly #activities = new Map<string, ActivityDefinition>();
  /** Only of those that decide something. */
  readonly #scheduleDefaults = new Map<string, ScheduleDefaults>();
  /** Changes whenever the code of an orchestration does. */
  readonly buildId: string;

  constructor({ orchestrations = [], activities = [] }: Definitions) {
    for (const definition of orchestrations) this.#addOrchestration(definition);
    for (const definition of activities) this.#addActivity(definition);
    this.buildId = hashOf(orchestrations);
  }

  /** The definition with the highest version. */
  latest(name: string): OrchestrationDefinition | undefined {
    return this.#latest.get(name);
  }

  find(name: string, version: string): OrchestrationDefinition | undefined {
    return this.#orchestrations.get(name)?.get(version);
  }

  /** Everything that can be run, with one entry per name for instances whose version is not yet picked. */
  runnable(): readonly RegisteredName[] {
    return [...this.#orchestrations].flatMap(([name, versions]) => [
      { name, version: null },
      ...[...versions.keys()].map((version) => ({ name, version })),
    ]);
  }

  hasActivity(name: string): boolean {
    return this.#activities.has(name);
  }

  /** What the definition of an activity decides about calls that name it by name alone. */
  scheduleDefaults(activity: string): ScheduleDefaults | undefined {
    return this.#scheduleDefaults.get(activity);
  }

  activities(): readonly ActivityDefinition[] {
    return [...this.#activities.values()];
  }

  #addOrchestration(definition: OrchestrationDefinition): void {
    checkKind(definition, 'orchestration');
    const { name, version } = definition;
    const versions = this.#orchestrations.get(name) ?? new Map<string, OrchestrationDefinition>();
    this.#orchestrations.set(name, versions);
    if (versions.has(version)) {
      throw new PerdureError(
        'ALREADY_REGISTERED',
        `Orchestration '${name}' version '${version}' is registered twice. Give one of them another version or name.`,
      );
    }
    versions.set(version, definition);
    const latest = this.#latest.get(name);
    if (latest === undefined || compareVersions(version, latest.version) > 0) {
      this.#latest.set(name, definition);
    }
  }

  #addActivity(definition: ActivityDefinition): void {
    checkKind(definition, 'activity');
    if (this.#activities.has(definition.name)) {
      throw new PerdureError(
        'ALREADY_REGISTERED',
        `Activity '${definition.name}' is registered twice. Give one of them another name.`,
      );
    }
    this.#activities.set(definition.name, definition);
    const defaults = toScheduleDefaults(definition.defaults);
    if (defaults !== undefined) this.#scheduleDefaults.set(definition.name, defaults);
  }
}

function checkKind(definition: unknown, kind: 'orchestration' | 'activity'): void {
  const given = definition as { kind?: unknown; handler?: unknown } | null | undefined;
  if (given?.kind === kind && typeof given.handler === 'function') return;
  const article = kind === 'activity' ? 'an activity' : 'an orchestration';
  throw new PerdureError(
    'INVALID_OPTION',
    `Something registered as ${article} is not one. Define it with ${kind}(name, handler).`,
  );
}

function hashOf(orchestrations: readonly OrchestrationDefinition[]): string {
  const parts = orchestrations.map((definition) =>
    JSON.stringify([definition.name, definition.version, sourceOf(definition)]),
  );
  return createHash('sha256').update(parts.sort().join('\n')).digest('base64url').slice(0, 16);
}

function sourceOf(definition: OrchestrationDefinition): string {
  return String(Reflect.get(definition, 'handler'));
}
