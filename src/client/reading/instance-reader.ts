import type { InstanceRecord } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { maxPageBytes } from './page-bytes.ts';

const maxBatch = 1_000;
// So few are read whatever their size: measuring them costs more than it saves.
const fewRows = 4;

export interface InstanceReaderParams {
  readonly provider: Provider;
  readonly onRecord: (instanceId: string, record: InstanceRecord | undefined) => void;
  readonly onError: (instanceId: string, error: Error) => void;
  /** Whether a row is still waited for: others need not be read. */
  readonly isWanted: (instanceId: string) => boolean;
}

/**
 * Reads rows, at most 1,000 and about 8 MiB at a time. Reads never overlap: what is asked for during one is read together in the
 * next, so that a burst of hints costs two reads and not one each.
 */
export class InstanceReader {
  readonly #params: InstanceReaderParams;
  readonly #due = new Set<string>();
  #reading = false;

  constructor(params: InstanceReaderParams) {
    this.#params = params;
  }

  /** Reads a row soon, and after this moment, even when a read of it is under way. */
  request(instanceId: string): void {
    this.#due.add(instanceId);
    if (this.#reading) return;
    this.#reading = true;
    // Waits that begin in the same tick share a read.
    queueMicrotask(() => void this.#readAll());
  }

  async #readAll(): Promise<void> {
    while (this.#due.size > 0) await this.#read(this.#takeBatch());
    this.#reading = false;
  }

  #takeBatch(): readonly string[] {
    const batch: string[] = [];
    for (const instanceId of this.#due) {
      if (batch.length === maxBatch) break;
      if (this.#params.isWanted(instanceId)) batch.push(instanceId);
      this.#due.delete(instanceId);
    }
    return batch;
  }

  async #read(instanceIds: readonly string[]): Promise<void> {
    const { provider, onRecord, onError } = this.#params;
    if (instanceIds.length === 0) return;
    try {
      const hasFew = instanceIds.length <= fewRows;
      const records = await (hasFew
        ? provider.getInstances(instanceIds)
        : provider.getInstances(instanceIds, maxPageBytes));
      const count = hasFew ? instanceIds.length : Math.max(1, records.length);
      // What was not read, because it did not fit, is read next.
      for (const instanceId of instanceIds.slice(count)) this.#due.add(instanceId);
      for (const [index, instanceId] of instanceIds.slice(0, count).entries()) {
        onRecord(instanceId, records[index]);
      }
    } catch (error) {
      for (const instanceId of instanceIds) onError(instanceId, error as Error);
    }
  }
}
