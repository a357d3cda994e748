import type { InstanceStatus } from '../../model/status.ts';
import { isTerminal } from '../../model/status.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { JobBinding, JobKey } from '../../providers/contract/sessions.ts';

/** How a caller may use the run that a key names. */
export type JobAccess =
  /** A job of the session. */
  | { readonly kind: 'job'; readonly name: string }
  /** A run that has ended and is no job any more: it can be read, and nothing changes it. */
  | { readonly kind: 'ended'; readonly name: string; readonly status: InstanceStatus }
  /** A job of another session, a run that was never a job, or an unknown one. */
  | { readonly kind: 'none' };

const maxKnown = 10_000;

/**
 * Binds job calls to the session they name. The id and incarnation of a run are no secret (an export shows both), so
 * they alone must not give access to the job of another session.
 */
export class JobBindings {
  readonly #provider: Provider;
  /** The binding of a job never changes, so a known one is not read again. */
  readonly #known = new Map<string, JobBinding>();

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  /** Remembers a job that this server created. */
  remember(key: JobKey, name: string): void {
    if (this.#known.size >= maxKnown) this.#forgetOldest();
    this.#known.set(toText(key), { sessionId: key.sessionId, name });
  }

  /** Returns the access that each key gives, in order. */
  async check(keys: readonly JobKey[]): Promise<readonly JobAccess[]> {
    const unknown = keys.filter((key) => !this.#known.has(toText(key)));
    if (unknown.length > 0) await this.#read(unknown);
    const access = keys.map((key) => this.#accessOf(key));
    const gone = keys.filter((_, index) => access[index] === undefined);
    if (gone.length === 0) return access.map((one) => one ?? none);
    const ended = await this.#readEnded(gone);
    return access.map((one, index) => one ?? ended.get(toText(keys[index] as JobKey)) ?? none);
  }

  #accessOf(key: JobKey): JobAccess | undefined {
    const binding = this.#known.get(toText(key));
    if (binding === undefined) return undefined;
    return binding.sessionId === key.sessionId ? { kind: 'job', name: binding.name } : none;
  }

  async #read(keys: readonly JobKey[]): Promise<void> {
    const bindings = await this.#provider.getJobBindings(keys);
    for (const [index, binding] of bindings.entries()) {
      const key = keys[index];
      if (binding === undefined || key === undefined) continue;
      this.remember({ ...key, sessionId: binding.sessionId }, binding.name);
    }
  }

  // A job is forgotten once its reply was taken or abandoned, which only happens to a run that has ended.
  async #readEnded(keys: readonly JobKey[]): Promise<ReadonlyMap<string, JobAccess>> {
    const records = await this.#provider.getInstances(keys.map(({ instanceId }) => instanceId));
    const found = new Map<string, JobAccess>();
    for (const [index, record] of records.entries()) {
      const key = keys[index];
      if (key === undefined || record?.incarnation !== key.incarnation) continue;
      const { name, status } = record;
      if (isTerminal(status)) found.set(toText(key), { kind: 'ended', name, status });
    }
    return found;
  }

  #forgetOldest(): void {
    const [oldest] = this.#known.keys();
    if (oldest !== undefined) this.#known.delete(oldest);
  }
}

const none: JobAccess = { kind: 'none' };

function toText({ instanceId, incarnation }: JobKey): string {
  return JSON.stringify([instanceId, incarnation]);
}
