import { notFound } from '../model/failures/errors.ts';
import { decodePayload } from '../model/values/payload.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { StateRecord, StateRequest } from '../providers/contract/state.ts';
import type { LocalBackendOptions } from './local-backend.ts';
import type { StateBackend, StateEntry, Versioned } from './reading/state.ts';
import { StateWaiter } from './waiting/state-waiter.ts';

/** Reads the state and the custom status of instances on the store of this process. */
export class LocalStates implements StateBackend {
  readonly waiter: StateWaiter;
  readonly #provider: Provider;

  constructor(options: LocalBackendOptions) {
    this.#provider = options.provider;
    this.waiter = new StateWaiter(options);
  }

  async read(id: string, key: string | undefined): Promise<readonly StateEntry[]> {
    return (await this.records(id, key)).map(toStateEntry);
  }

  /** Reads values without decoding them. Rejects with `INSTANCE_NOT_FOUND`. */
  async records(id: string, key: string | undefined): Promise<readonly StateRecord[]> {
    const request = { instanceId: id, what: 'state', after: 0 } as const;
    const [view] = await this.#provider.readStates([
      key === undefined ? request : { ...request, key },
    ]);
    if (view === undefined) throw notFound(id);
    return view.entries;
  }

  async wait(request: StateRequest, timeoutMs: number | undefined): Promise<Versioned> {
    const { payload, version } = await this.waiter.wait(request, timeoutMs);
    return { value: decodePayload(payload), version };
  }

  /** Rejects all waits with `CLOSED`. */
  close(): void {
    this.waiter.close();
  }
}

/** Decodes a stored value. */
function toStateEntry({ key, payload, version }: StateRecord): StateEntry {
  return { key, value: decodePayload(payload), version };
}
