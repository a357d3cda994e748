import type { PauseBackend, PauseCall, PauseResult } from '../client/managing/pause-request.ts';
import type { PausedDefinition } from '../providers/contract/pausing.ts';
import type { Transport } from './transport.ts';

/** Pauses and resumes over HTTP. A repeat changes nothing, so a call whose response was lost is repeated. */
export class HttpPauses implements PauseBackend {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  pause({ target, reason, actor }: PauseCall): Promise<PauseResult> {
    const by = { reason: reason ?? undefined, actor: actor ?? undefined };
    if ('instanceId' in target) {
      const { instanceId: id, tree } = target;
      const request = { params: { id }, body: { ...by, tree } };
      return this.#transport.call('pauseInstance', request, repeatable);
    }
    return this.#transport.call(
      'pauseDefinition',
      { body: { ...by, ...named(target) } },
      repeatable,
    );
  }

  resume({ target, reason, actor }: PauseCall): Promise<PauseResult> {
    const by = { reason: reason ?? undefined, actor: actor ?? undefined };
    if ('instanceId' in target) {
      const { instanceId: id, tree } = target;
      const request = { params: { id }, body: { ...by, tree } };
      return this.#transport.call('resumeInstance', request, repeatable);
    }
    return this.#transport.call(
      'resumeDefinition',
      { body: { ...by, ...named(target) } },
      repeatable,
    );
  }

  async listDefinitions(): Promise<readonly PausedDefinition[]> {
    return (await this.#transport.call('listPausedDefinitions', {})).items;
  }
}

const repeatable = { repeatable: true } as const;

function named({ name, kinds }: Extract<PauseCall['target'], { readonly name: string }>) {
  const [kind] = kinds;
  return { name, ...(kinds.length === 1 && kind !== undefined && { kind }) };
}
