import { setTimeout as delay } from 'node:timers/promises';
import { isPerdureError, type ActivityContext } from '../../index.ts';
import { itemsEvent } from '../definition/graph.ts';
import type { GeneratedItems, StepResult } from '../definition/run-format.ts';
import { LiveStepContext, type StepContext } from './step-context.ts';

/** The context of a generator. */
export interface GeneratorContext extends Omit<StepContext, 'completeEarly'> {
  /** The number of items that earlier attempts sent. With `resumes`, the generator starts at this index. */
  readonly yielded: number;
}

interface Generation {
  readonly flow: string;
  readonly step: string;
  readonly generate: (
    ctx: GeneratorContext,
    inputs: Readonly<Record<string, unknown>>,
  ) => AsyncIterable<unknown>;
  readonly resumes: boolean;
  readonly inputs: Readonly<Record<string, unknown>>;
}

/** The heartbeat of a generator: the number of sent items, and the author's details. */
interface Progress {
  readonly yielded: number;
  readonly details?: unknown;
}

const batchSize = 100;
// Maximum time that an item waits for its batch to fill.
const maxBatchDelayMs = 20;
const bufferFullDelayMs = 100;

/**
 * Runs a generator, and sends its items to the run in events while it yields them. Resolves with the number of items.
 *
 * Each item has an index, and the run accepts each index once. It drops items that are yielded again: after a failure or
 * a crash, or by an attempt that lost its lease.
 */
export async function generate(
  activity: ActivityContext,
  { flow, step, generate: code, resumes, inputs }: Generation,
): Promise<StepResult> {
  const context = new LiveGeneratorContext(activity, { flow, step });
  const { yielded } = context;
  const batches = new Batches(yielded, (batch) => context.send(batch));
  let place = resumes ? yielded : 0;
  try {
    for await (const item of code(context, inputs)) {
      activity.throwIfCanceled();
      // The run already has the items before `yielded`.
      if (place >= yielded) await batches.add(item);
      place += 1;
    }
  } catch (error) {
    await batches.flushBefore(error);
  } finally {
    context.end();
  }
  await batches.flush();
  return { output: place };
}

/** Collects items into batches, and sends one batch at a time. */
class Batches {
  readonly #send: (batch: GeneratedItems) => Promise<void>;
  #offset: number;
  #items: unknown[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> = Promise.resolve();

  constructor(offset: number, send: (batch: GeneratedItems) => Promise<void>) {
    this.#offset = offset;
    this.#send = send;
  }

  async add(item: unknown): Promise<void> {
    this.#items.push(item);
    if (this.#items.length >= batchSize) await this.flush();
    // The next awaited flush() rejects if this batch cannot be sent.
    else
      this.#timer ??= setTimeout(() => void this.flush().catch(() => undefined), maxBatchDelayMs);
  }

  /** Resolves when all items are in the store. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const items = this.#items;
    if (items.length === 0) return this.#sending;
    const batch = { offset: this.#offset, items };
    this.#items = [];
    this.#offset += items.length;
    this.#sending = this.#sending.then(() => this.#send(batch));
    return this.#sending;
  }

  /** Sends the remaining items if possible, then throws the generator's error. */
  async flushBefore(failure: unknown): Promise<never> {
    await Promise.allSettled([this.flush()]);
    throw failure;
  }
}

/** Splits a batch in two, for a batch that exceeds the payload limit. */
function halves({ offset, items }: GeneratedItems): readonly GeneratedItems[] {
  const middle = Math.ceil(items.length / 2);
  return [
    { offset, items: items.slice(0, middle) },
    { offset: offset + middle, items: items.slice(middle) },
  ];
}

/** Adds the number of sent items to the heartbeats of the author. */
class LiveGeneratorContext extends LiveStepContext implements GeneratorContext {
  readonly yielded: number;
  readonly #activity: ActivityContext;
  #progress: Progress;

  constructor(activity: ActivityContext, place: { readonly flow: string; readonly step: string }) {
    super(activity, place);
    this.#activity = activity;
    this.#progress = (activity.lastHeartbeat as Progress | undefined) ?? { yielded: 0 };
    this.yielded = this.#progress.yielded;
  }

  override get lastHeartbeat(): unknown {
    return (this.#activity.lastHeartbeat as Progress | undefined)?.details;
  }

  override heartbeat(details?: unknown): void {
    this.#report({ ...this.#progress, details });
  }

  /** Sends items to the run. Retries while the run's event buffer is full. */
  async send(batch: GeneratedItems): Promise<void> {
    const { client, instanceId, signal } = this.#activity;
    for (;;) {
      try {
        await client.raiseEvent(instanceId, itemsEvent(this.step), batch);
        break;
      } catch (error) {
        if (isPerdureError(error, 'PAYLOAD_TOO_LARGE') && batch.items.length > 1) {
          for (const half of halves(batch)) await this.send(half);
          return;
        }
        if (!isPerdureError(error, 'EVENT_BUFFER_FULL')) throw error;
        await delay(bufferFullDelayMs, undefined, { signal });
      }
    }
    this.#report({ ...this.#progress, yielded: batch.offset + batch.items.length });
  }

  #report(progress: Progress): void {
    this.#progress = progress;
    this.#activity.heartbeat(progress);
  }
}
