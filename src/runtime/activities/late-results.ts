import type { Logger } from '../../model/logger.ts';
import { decodePayload } from '../../model/values/payload.ts';
import type { OnAbandoned } from '../../orchestration/activity-context.ts';
import type { Registry } from '../../orchestration/registry.ts';
import type { AbandonedResult, SessionStore } from '../../providers/contract/sessions.ts';
import type { TaskClient, TaskRegistry } from '../../tasks/task.ts';

export interface LateResultsParams {
  readonly store: SessionStore;
  readonly registry: Registry;
  readonly tasks: TaskRegistry;
  readonly client: TaskClient;
  readonly logger: Logger;
}

// Lock of one result. After that, another worker may try it.
const lockMs = 300_000;
const maxAtOnce = 16;
const firstRetryMs = 1_000;
const maxRetryMs = 60_000;

/** Calls `onAbandoned` for results of jobs whose callers disappeared, until it succeeds. */
export class LateResults {
  readonly #params: LateResultsParams;
  readonly #hooks: Readonly<
    Record<AbandonedResult['kind'], ReadonlyMap<string, OnAbandoned<unknown>>>
  >;
  readonly #pending = new Set<Promise<void>>();

  constructor(params: LateResultsParams) {
    this.#params = params;
    const { registry, tasks } = params;
    const names = new Set(registry.runnable().map(({ name }) => name));
    this.#hooks = {
      orchestration: hooksOf([...names].flatMap((name) => registry.latest(name) ?? [])),
      task: hooksOf(tasks.all()),
    };
  }

  /** Whether a definition of this worker has `onAbandoned`. */
  get hasHooks(): boolean {
    return this.#hooks.orchestration.size > 0 || this.#hooks.task.size > 0;
  }

  /** Starts to dispose of waiting results. Returns whether there were any. */
  async disposeDue(): Promise<boolean> {
    const limit = maxAtOnce - this.#pending.size;
    if (!this.hasHooks || limit < 1) return false;
    const claimed = await this.#params.store.claimAbandoned({
      orchestrations: [...this.#hooks.orchestration.keys()],
      tasks: [...this.#hooks.task.keys()],
      limit,
      lockMs,
    });
    for (const result of claimed) this.#track(this.#dispose(result));
    return claimed.length > 0;
  }

  /** Resolves when no call of `onAbandoned` is running. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  async #dispose(result: AbandonedResult): Promise<void> {
    const { store, client, logger: log } = this.#params;
    const { key, kind, name, attempt } = result;
    const { instanceId } = key;
    let retryInMs: number | null = null;
    try {
      const context = { instanceId, name, attempt, client, log };
      await this.#hooks[kind].get(name)?.(decodePayload(result.output), context);
    } catch (error) {
      retryInMs = Math.min(firstRetryMs * 2 ** (attempt - 1), maxRetryMs);
      log.warn({ error, instanceId, name, retryInMs }, 'onAbandoned failed, will retry');
    }
    try {
      await store.settleAbandoned([{ key, retryInMs }]);
    } catch (error) {
      log.warn(
        { error, instanceId, name },
        'recording the outcome of onAbandoned failed, will run again',
      );
    }
  }

  #track(work: Promise<void>): void {
    this.#pending.add(work);
    void work.finally(() => this.#pending.delete(work));
  }
}

interface Disposing {
  readonly name: string;
  onAbandoned?(output: unknown, context: Parameters<OnAbandoned<unknown>>[1]): unknown;
}

function hooksOf(definitions: readonly Disposing[]): ReadonlyMap<string, OnAbandoned<unknown>> {
  return new Map(
    definitions
      .filter((definition) => definition.onAbandoned !== undefined)
      .map((one) => [one.name, (output, context) => one.onAbandoned?.(output, context)]),
  );
}
