import { createHash } from 'node:crypto';
import { PerdureError } from '../model/failures/errors.ts';
import { compareVersions } from '../model/definition.ts';
import type { ActivityDefinition } from './activity.ts';
import { toScheduleDefaults, type ScheduleDefaults } from './call-options.ts';
import type { OrchestrationDefinition } from './orchestration.ts';

/** The definitions that a worker runs. */
export interface Definitions {
  readonly orchestrations?: readonly OrchestrationDefinition[] | undefined;
  readonly activities?: readonly ActivityDefinition[] | undefined;
}

/** A name and version that a worker can run. `version: null` matches instances without a version yet. */
export interface RegisteredName {
  readonly name: string;
  readonly version: string | null;
}

/** The definitions of a worker, by name and version. */
export class Registry {
  readonly #orchestrations = new Map<string, Map<string, OrchestrationDefinition>>();
  readonly #latest = new Map<string, OrchestrationDefinition>();
  readonly #activities = new Map<string, ActivityDefinition>();
  /** Entries of activities that have such defaults. */
  readonly #scheduleDefaults = new Map<string, ScheduleDefaults>();
  /** A hash of the names, versions and source code of the orchestrations. */
  readonly buildId: string;

  constructor({ orchestrations = [], activities = [] }: Definitions) {
    for (const definition of orchestrations) this.#addOrchestration(definition);
    for (const definition of activities) this.#addActivity(definition);
    this.buildId = hashOf(orchestrations);
  }

  /** Returns the definition with the highest version. */
  latest(name: string): OrchestrationDefinition | undefined {
    return this.#latest.get(name);
  }

  find(name: string, version: string): OrchestrationDefinition | undefined {
    return this.#orchestrations.get(name)?.get(version);
  }

  /** Returns all names and versions, and an entry with `version: null` per name. */
  runnable(): readonly RegisteredName[] {
    return [...this.#orchestrations].flatMap(([name, versions]) => [
      { name, version: null },
      ...[...versions.keys()].map((version) => ({ name, version })),
    ]);
  }

  hasActivity(name: string): boolean {
    return this.#activities.has(name);
  }

  /** Whether this worker can claim an activity when it is scheduled: it is registered and has no limits. */
  isClaimable(name: string): boolean {
    const activity = this.#activities.get(name);
    return (
      activity !== undefined && activity.concurrency === undefined && activity.rate === undefined
    );
  }

  /** Returns the defaults of an activity for calls by name. */
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
        `Orchestration ${JSON.stringify(name)} version ${JSON.stringify(version)} is registered twice. Change the version or name of one of them.`,
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
        `Activity ${JSON.stringify(definition.name)} is registered twice. Rename one of them.`,
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
  throw new PerdureError(
    'INVALID_OPTION',
    `A registered ${kind} is not a definition. Create it with ${kind}(name, handler).`,
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
