import { createHash } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { compareVersions } from '../../model/definition.ts';
import {
  toSharedLimits,
  type ResolvedLimits,
  type SharedLimits,
} from '../../model/limit-options.ts';
import type { Logger } from '../../model/logger.ts';
import type { OrchestrationDefinition } from '../../orchestration/orchestration.ts';
import { Registry, type Definitions } from '../../orchestration/registry.ts';
import type {
  DeclaredLimits,
  LimitDeclaration,
  LimitedKind,
} from '../../providers/contract/limits.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { liveWorkers } from '../../providers/rules/workers.ts';
import type { TaskDefinition } from '../../tasks/task.ts';
import { withRetries } from './provider-retry.ts';

// Long enough for a failover, short enough for a supervisor that waits for the start.
const patienceMs = 30_000;

type Limited = ResolvedLimits & { readonly name: string };

/**
 * Declares the limits of a worker's definitions, before it claims work. Logs a warning per definition for which another
 * live build declares other limits. Returns the build id of the worker.
 */
export async function declareLimits(params: {
  readonly provider: Pick<Provider, 'declareLimits' | 'listWorkers'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly definitions: Definitions;
  readonly declared: readonly LimitDeclaration[];
  /** Absent: derived from the code and the limits. */
  readonly buildId?: string | undefined;
}): Promise<string> {
  const { provider, clock, logger, definitions, declared } = params;
  const buildId = params.buildId ?? deriveBuildId(definitions, declared);
  const deadline = clock.monotonic() + patienceMs;
  const results = await withRetries({ clock, logger, deadline }, () =>
    provider.declareLimits({ buildId, definitions: declared }),
  );
  if (results.some(({ contradictions }) => contradictions.length > 0)) {
    const live = new Set(liveWorkers(await provider.listWorkers()).map((worker) => worker.buildId));
    for (const result of results) warnOfContradiction(logger, { result, declared, buildId, live });
  }
  return buildId;
}

/** Returns the limits of definitions that hold over all workers. Other definitions are not declared. */
export function limitDeclarations({
  orchestrations = [],
  activities = [],
  tasks = [],
}: Definitions & {
  readonly tasks?: readonly TaskDefinition[] | undefined;
}): readonly LimitDeclaration[] {
  return [
    ...newestVersions(orchestrations).flatMap((one) => declarationOf('orchestration', one)),
    ...activities.flatMap((one) => declarationOf('activity', one)),
    ...tasks.flatMap((one) => declarationOf('task', one)),
  ];
}

/** Versions of one orchestration share its limits. The newest version has them. */
function newestVersions(
  orchestrations: readonly OrchestrationDefinition[],
): readonly OrchestrationDefinition[] {
  const newest = new Map<string, OrchestrationDefinition>();
  // The worker rejects entries that are no definitions.
  for (const one of orchestrations.filter((entry) => entry?.kind === 'orchestration')) {
    const other = newest.get(one.name);
    if (other === undefined || compareVersions(one.version, other.version) > 0) {
      newest.set(one.name, one);
    }
  }
  return [...newest.values()];
}

function declarationOf(
  kind: LimitedKind,
  definition: Limited | null | undefined,
): readonly LimitDeclaration[] {
  const limits = toSharedLimits(definition ?? {}) ?? removedLimits(definition ?? {});
  return limits === undefined ? [] : [{ kind, name: definition?.name ?? '', limits }];
}

/**
 * The limits of `concurrency: {}`: none, also if a former build has declared some. A definition without `concurrency` declares
 * nothing: a worker of an older build that starts again must not remove the limits of a newer one.
 */
function removedLimits({ concurrency }: ResolvedLimits): SharedLimits | undefined {
  return concurrency !== undefined && Object.keys(concurrency).length === 0 ? {} : undefined;
}

/** Derives the id of a build that sets none from its code and its limits. */
function deriveBuildId(definitions: Definitions, declared: readonly LimitDeclaration[]): string {
  const { buildId } = new Registry(definitions);
  const hash = createHash('sha256').update(JSON.stringify([buildId, declared]));
  return hash.digest('base64url').slice(0, 16);
}

function warnOfContradiction(
  logger: Logger,
  found: {
    readonly result: DeclaredLimits;
    readonly declared: readonly LimitDeclaration[];
    readonly buildId: string;
    readonly live: ReadonlySet<string>;
  },
): void {
  const { result, declared, buildId, live } = found;
  const { kind, name, declaredBy, effective, contradictions } = result;
  const isNewest = declaredBy === buildId;
  // Builds whose workers have stopped are the past: each deploy that changes a limit leaves one.
  const other = contradictions.find((one) =>
    isNewest ? live.has(one.buildId) : one.buildId === buildId,
  );
  if (other === undefined) return;
  const own = declared.find((one) => one.kind === kind && one.name === name)?.limits;
  const builds = isNewest
    ? { [buildId]: own, [other.buildId]: other.limits }
    : { [buildId]: own, [declaredBy]: effective };
  const names = Object.keys(builds).join(' and ');
  logger.warn(
    { kind, name, builds, holds: declaredBy },
    `builds ${names} declare different limits of ${kind} ${JSON.stringify(name)}: those of ${declaredBy}, the newest, hold`,
  );
}
