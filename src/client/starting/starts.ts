import type { Clock } from '../../model/clock.ts';
import { ProviderError } from '../../model/failures/errors.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import { encodeMessage } from '../../model/message.ts';
import { randomToken, timeOrderedId } from '../../model/values/random-id.ts';
import type { CreateResult, NewInstance } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { Births } from './recent-starts.ts';
import { encodeInput } from './encode-input.ts';
import { alreadyExists } from '../waiting/instance-errors.ts';
import { readStartOptions, readTarget } from './start-request.ts';

/** Creates an instance together with its first turn, or declines with `undefined`. */
export interface InstanceStarter {
  start(instance: NewInstance): Promise<CreateResult> | undefined;
}

export interface StartsParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly payloadLimitBytes: number;
  readonly births: Births;
  /** Lets a worker in this process create instances together with their first turn. */
  readonly starter?: (() => InstanceStarter | undefined) | undefined;
}

/** Starts orchestrations. */
export class Starts {
  readonly #params: StartsParams;

  constructor(params: StartsParams) {
    this.#params = params;
  }

  /** Answers the id of the instance that was started, or found. */
  async start(definition: unknown, input: unknown, options: unknown): Promise<string> {
    const { clock, payloadLimitBytes } = this.#params;
    const { name, version, schema } = readTarget(definition);
    const chosen = readStartOptions(options);
    const what = `Orchestration ${JSON.stringify(name)}`;
    const payload = await encodeInput(input, { what, schema, limitBytes: payloadLimitBytes });
    const instanceId = chosen.id ?? timeOrderedId(clock.now());
    const startVersion = chosen.version ?? version;
    await this.#create({
      instanceId,
      incarnation: randomToken(),
      name,
      version: startVersion,
      inputHash: inputHash(payload),
      start: encodeMessage({ kind: 'start', name, version: startVersion, payload }),
    });
    return instanceId;
  }

  async #create(instance: NewInstance): Promise<void> {
    const { births } = this.#params;
    const birth = births.announce(instance.instanceId, instance.incarnation);
    let result: CreateResult | undefined;
    try {
      result = await this.#createSurely(instance);
    } finally {
      if (result?.kind === 'created') births.confirm(birth);
      else births.withdraw(birth);
    }
    if (result.kind === 'refused') throw result.error;
    if (result.kind === 'conflict') throw alreadyExists(instance, result.name);
  }

  /** Where the answer of the store was lost the same start is made again: it finds what the first one made. */
  async #createSurely(instance: NewInstance): Promise<CreateResult> {
    try {
      const starter = this.#params.starter?.();
      return await (starter?.start(instance) ?? this.#createInStore(instance));
    } catch (error) {
      if (!(error instanceof ProviderError && error.outcomeUnknown)) throw error;
      return await this.#createInStore(instance);
    }
  }

  async #createInStore(instance: NewInstance): Promise<CreateResult> {
    const [result] = await this.#params.provider.createInstances([instance]);
    if (result === undefined) throw new Error('createInstances answered nothing.');
    return result;
  }
}
