import { newAuditEntry } from '../../management/management-options.ts';
import type { AuditEntry } from '../../providers/contract/management.ts';
import type { PausedDefinition } from '../../providers/contract/pausing.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { PauseBackend, PauseCall, PauseResult } from './pause-request.ts';
import { pausedTogether, withoutCalls } from './task-pauses.ts';

/** Pauses and resumes through the provider of this process. */
export class LocalPauses implements PauseBackend {
  readonly #provider: Provider;

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  async pause(call: PauseCall): Promise<PauseResult> {
    const { target, reason, actor } = call;
    const audit = auditOf('pause', call);
    if ('instanceId' in target) {
      const request = { ...target, reason, actor, audit };
      const [result] = await this.#provider.pauseInstances([request]);
      return result ?? missing;
    }
    const paused = pausedTogether(target.name, target.kinds);
    const requests = paused.map((one) => ({ ...one, reason, actor, audit }));
    return toResult(await this.#provider.pauseDefinitions(requests), true);
  }

  async resume(call: PauseCall): Promise<PauseResult> {
    const { target } = call;
    const audit = auditOf('resume', call);
    if ('instanceId' in target) {
      const [result] = await this.#provider.resumeInstances([{ ...target, audit }]);
      return result ?? missing;
    }
    const requests = pausedTogether(target.name, target.kinds).map((one) => ({ ...one, audit }));
    return toResult(await this.#provider.resumeDefinitions(requests), false);
  }

  async listDefinitions(): Promise<readonly PausedDefinition[]> {
    return withoutCalls(await this.#provider.listPausedDefinitions());
  }
}

const missing: PauseResult = { found: false, changed: false, status: null, paused: false };

function toResult(
  results: readonly { readonly found: boolean; readonly changed: boolean }[],
  paused: boolean,
): PauseResult {
  const found = results.some((one) => one.found);
  const changed = results.some((one) => one.changed);
  return { found, changed, status: null, paused };
}

function auditOf(action: 'pause' | 'resume', { target, actor, reason }: PauseCall): AuditEntry {
  const isInstance = 'instanceId' in target;
  const shape = isInstance
    ? { instanceIds: 1, tree: target.tree }
    : { definition: { name: target.name, kinds: target.kinds } };
  const instanceId = isInstance ? target.instanceId : null;
  return newAuditEntry(action, actor, shape, { reason, instanceId });
}
