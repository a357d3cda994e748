import { compareVersions } from '../../model/definition.ts';
import type { LimitedKind, LimitsRecord, RateLimit } from '../../providers/contract/limits.ts';
import type { PausedDefinition } from '../../providers/contract/pausing.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkerRecord } from '../../providers/contract/workers.ts';
import { canRun, liveWorkers, type WantedDefinition } from '../../providers/rules/workers.ts';
import { withoutCalls } from '../managing/task-pauses.ts';
import type { UnclaimedReason } from './why.ts';

export interface ExplainParams {
  readonly provider: Provider;
  /** Whether the caller may see a definition. Children of others have no name and state. Default: all. */
  readonly maySee?: ((name: string) => boolean) | undefined;
}

/** What an explanation and those of its children share. Reads workers and paused definitions at most once. */
export class ExplainContext {
  readonly provider: Provider;
  readonly #maySee: ((name: string) => boolean) | undefined;
  #workers: Promise<readonly WorkerRecord[]> | undefined;
  readonly #rates = new Map<string, Promise<RateLimit | undefined>>();
  #paused: Promise<readonly PausedDefinition[]> | undefined;

  constructor({ provider, maySee }: ExplainParams) {
    this.provider = provider;
    this.#maySee = maySee;
  }

  maySee(name: string): boolean {
    return this.#maySee?.(name) ?? true;
  }

  liveWorkers(): Promise<readonly WorkerRecord[]> {
    this.#workers ??= this.provider.listWorkers().then(liveWorkers);
    return this.#workers;
  }

  /** Reads the rate of a definition, at most once. */
  rateOf(kind: LimitedKind, name: string): Promise<RateLimit | undefined> {
    const id = `${kind} ${name}`;
    const known = this.#rates.get(id) ?? this.#readRate(kind, name);
    this.#rates.set(id, known);
    return known;
  }

  /** Reads the limits of a definition with their state. */
  async limitsOf(kind: LimitedKind, name: string): Promise<LimitsRecord | undefined> {
    const { records } = await this.provider.listLimits({ limit: 1, only: { kind, name } });
    return records[0];
  }

  async #readRate(kind: LimitedKind, name: string): Promise<RateLimit | undefined> {
    return (await this.limitsOf(kind, name))?.effective.rate;
  }

  pausedDefinitions(): Promise<readonly PausedDefinition[]> {
    this.#paused ??= this.provider.listPausedDefinitions().then(withoutCalls);
    return this.#paused;
  }
}

/** Returns why no worker has claimed work that is not paused. Pass only live workers. */
export function unclaimedReason(
  workers: readonly WorkerRecord[],
  wanted: WantedDefinition,
): Exclude<UnclaimedReason, 'paused' | 'limited'> {
  const able = workers.filter((worker) => canRun([worker], wanted));
  if (able.length === 0) return 'noWorker';
  // The store does not know how many turns a worker runs.
  if (wanted.kind === 'orchestration') return 'queued';
  return able.every(({ slots }) => slots.inUse >= slots.activities) ? 'busy' : 'queued';
}

/** Returns the version of an orchestration that workers have: the next lower one, else the lowest. */
export function nearestVersion(
  workers: readonly WorkerRecord[],
  name: string,
  version: string,
): string | undefined {
  const versions = workers
    .flatMap(({ orchestrations }) => orchestrations)
    .flatMap((one) => (one.name === name ? [one.version] : []))
    .toSorted(compareVersions);
  return versions.findLast((one) => compareVersions(one, version) < 0) ?? versions[0];
}
