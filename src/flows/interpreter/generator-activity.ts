import { setTimeout as delay } from 'node:timers/promises';
import { isPerdureError, type ActivityContext } from '../../index.ts';
import { itemsEvent } from '../definition/graph.ts';
import { LiveStepContext, type StepContext } from './step-context.ts';
import type { GeneratedItems, StepResult } from '../definition/run-format.ts';

/** What the code of a generator is given besides its inputs. */
export interface GeneratorContext extends Omit<StepContext, 'completeEarly'> {
  /** How many items earlier attempts have handed over for good; with `resumes` the generator begins after them. */
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

/** What an attempt reports: how far it has come, and whatever its author adds. */
interface Progress {
  readonly yielded: number;
  readonly details?: unknown;
}

const batchSize = 100;
// A slow generator's items need not wait for a full batch.
const maxWaitMs = 20;
const fullPauseMs = 100;

/**
 * Runs a generator. Its items are handed to the run in events while it goes on; each knows its place, and the run takes
 * each place once, so whatever an attempt yields again (after a failure, a crash, or beside one that lost its lease)
 * is dropped. Answers how many there are.
 */
export async function generate(
  activity: ActivityContext,
  { flow, step, generate: code, resumes, inputs }: Generation,
): Promise<StepResult> {
  const context = new LiveGeneratorContext(activity, { flow, step });
  const { yielded } = context;
  const batches = new Batches(yielded, (batch) => context.handOver(batch));
  let place = resumes ? yielded : 0;
  try {
    for await (const item of code(context, inputs)) {
      activity.throwIfCanceled();
      // What the run has is not sent again.
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

/** Collects items into batches and sends them one after the other. */
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
    // A batch that cannot be sent is told to the next call that waits for it.
    else this.#timer ??= setTimeout(() => void this.flush().catch(() => undefined), maxWaitMs);
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

  /** The generator failed: what it has yielded is kept all the same, if it can be. */
  async flushBefore(failure: unknown): Promise<never> {
    await Promise.allSettled([this.flush()]);
    throw failure;
  }
}

/** What is too much for one event goes in two, down to an item that is too large by itself. */
function halves({ offset, items }: GeneratedItems): readonly GeneratedItems[] {
  const middle = Math.ceil(items.length / 2);
  return [
    { offset, items: items.slice(0, middle) },
    { offset: offset + middle, items: items.slice(middle) },
  ];
}

/** The progress of a generator holds the count of its items; what its author reports is put beside it. */
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

  /** Hands items to the run; one that has too many events waiting is given the time to take them. */
  async handOver(batch: GeneratedItems): Promise<void> {
    const { client, instanceId, signal } = this.#activity;
    for (;;) {
      try {
        await client.raiseEvent(instanceId, itemsEvent(this.step), batch);
        break;
      } catch (error) {
        if (isPerdureError(error, 'PAYLOAD_TOO_LARGE') && batch.items.length > 1) {
          for (const half of halves(batch)) await this.handOver(half);
          return;
        }
        if (!isPerdureError(error, 'EVENT_BUFFER_FULL')) throw error;
        await delay(fullPauseMs, undefined, { signal });
      }
    }
    this.#report({ ...this.#progress, yielded: batch.offset + batch.items.length });
  }

  #report(progress: Progress): void {
    this.#progress = progress;
    this.#activity.heartbeat(progress);
  }
}
