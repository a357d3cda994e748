import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  PerdureError,
  type EventToken,
  type OrchestrationContext,
  type StandardSchema,
  type Client,
} from '../../index.ts';
import { statusOf, takenSignal, readRunInput } from '../definition/run-format.ts';
import { signalEvent, type FlowGraph } from '../definition/graph.ts';

/** How a signal is sent. */
export interface SignalOptions {
  /** How long to wait until the run has taken it. Default 30 s. */
  readonly timeoutMs?: number | undefined;
}

/** The payload may be left out where `undefined` is one. */
export type SignalArguments<Value> = undefined extends Value
  ? [payload?: NoInfer<Value>, options?: SignalOptions]
  : [payload: NoInfer<Value>, options?: SignalOptions];

const firstPauseMs = 2;
const longestPauseMs = 100;

/**
 * Sends a signal to a run of a flow, and resolves when the run has taken it, whether or not its step is ready for it.
 * A signal is taken once: a later one rejects with `SIGNAL_ALREADY_DELIVERED`, one that the flow does not know with
 * `UNKNOWN_SIGNAL`, and one that comes too late with `INSTANCE_OVER`.
 */
export function signalFlow<Value>(
  client: Client,
  id: string,
  signal: EventToken<Value, unknown>,
  ...args: SignalArguments<Value>
): Promise<void>;
export function signalFlow(
  client: Client,
  id: string,
  signal: string,
  payload?: unknown,
  options?: SignalOptions,
): Promise<void>;
// The payload and the options follow the signal as they do in `raiseEvent`.
export async function signalFlow(
  client: Client,
  id: string,
  signal: EventToken | string,
  ...[payload, options]: readonly [payload?: unknown, options?: SignalOptions]
): Promise<void> {
  const name = typeof signal === 'string' ? signal : signal.name;
  const deadline = performance.now() + (options?.timeoutMs ?? 30_000);
  await poll(deadline, name, () => isKnown(client, id, name));
  const before = await look(client, id, name);
  if (before.taken !== undefined) throw alreadyDelivered(id, name);
  const sent: SentSignal = { token: randomUUID(), payload };
  const schema = typeof signal === 'string' ? undefined : signal.schema;
  await client.raiseEvent(id, sentEvent(name, schema), sent);
  await poll(deadline, name, async () => {
    const { taken } = await look(client, id, name);
    if (taken !== undefined && taken !== sent.token) throw alreadyDelivered(id, name);
    return taken !== undefined;
  });
}

/** Whether the run has begun and knows the signal; throws when it does not. */
async function isKnown(client: Client, id: string, name: string): Promise<boolean> {
  const run = await readRunInput(client, id);
  if (run === undefined) {
    await look(client, id, name);
    return false;
  }
  const known = run.flow.steps.flatMap(({ signal }) => (signal === undefined ? [] : [signal]));
  if (known.includes(name)) return true;
  throw new PerdureError(
    'UNKNOWN_SIGNAL',
    `Run '${id}' of flow '${run.flow.name}' waits for no signal '${name}'. ${known.length === 0 ? 'It has none' : `It has: ${known.join(', ')}`}.`,
  );
}

/** The token of the signal that the run has taken, if any; throws when it is too late for one. */
async function look(
  client: Client,
  id: string,
  name: string,
): Promise<{ readonly taken: string | undefined }> {
  const info = await client.handle(id).status();
  const taken = takenSignal(statusOf(info), name);
  if (taken !== undefined) return { taken };
  if (info.status === 'pending' || info.status === 'running') return { taken: undefined };
  throw new PerdureError(
    'INSTANCE_OVER',
    `Run '${id}' is ${info.status}, so signal '${name}' was not taken. See with get() how it ended.`,
  );
}

async function poll(deadline: number, name: string, isDone: () => Promise<boolean>): Promise<void> {
  let pauseMs = firstPauseMs;
  while (!(await isDone())) {
    if (performance.now() >= deadline) {
      throw new PerdureError(
        'TIMEOUT',
        `No worker has taken signal '${name}' yet. If it was sent, it is kept, and taken when one runs the flow. Is a worker running that has it?`,
      );
    }
    await delay(pauseMs);
    pauseMs = Math.min(pauseMs * 2, longestPauseMs);
  }
}

function alreadyDelivered(id: string, name: string): PerdureError {
  return new PerdureError(
    'SIGNAL_ALREADY_DELIVERED',
    `Run '${id}' has already taken a signal '${name}', and takes one only. This one has no effect.`,
  );
}

/** A signal on its way: the token tells the sender whether it was this one that was taken. */
export interface SentSignal {
  readonly token: string;
  readonly payload?: unknown;
}

/** The event that carries a signal. A schema checks what comes with it; `onSent` hears the token of what it checks. */
export function sentEvent(
  signal: string,
  schema: StandardSchema | undefined,
  onSent?: (token: string) => void,
): EventToken<SentSignal> {
  const name = signalEvent(signal);
  return schema === undefined
    ? { kind: 'event', name }
    : { kind: 'event', name, schema: sentSchema(schema, onSent) };
}

function sentSchema(
  schema: StandardSchema,
  onSent: ((token: string) => void) | undefined,
): StandardSchema<unknown, SentSignal> {
  return {
    '~standard': {
      version: 1,
      vendor: 'perdure',
      validate: (value) => {
        const sent = value as SentSignal;
        onSent?.(sent.token);
        const result = schema['~standard'].validate(sent.payload);
        // A promise is passed on, for the event to be refused: its schema must be synchronous.
        if ('then' in result) return result as Promise<never>;
        return result.issues === undefined
          ? { value: { token: sent.token, payload: result.value } }
          : { issues: result.issues };
      },
    },
  };
}

/** The signals of a run: each is taken as soon as it comes, whether or not its step is ready for it, and only once. */
export class Signals {
  readonly #waits = new Map<string, Promise<unknown>>();

  /** Listens for all signals of a graph, checks them by their schemas; `onTaken` hears the token of each. */
  constructor(
    ctx: Pick<OrchestrationContext, 'waitFor'>,
    graph: FlowGraph,
    options: {
      readonly schemas: ReadonlyMap<string, StandardSchema>;
      readonly onTaken: (signal: string, token: string) => void;
    },
  ) {
    const { schemas, onTaken } = options;
    for (const { signal } of graph.steps) {
      if (signal === undefined) continue;
      let sent: string | undefined;
      const event = sentEvent(signal, schemas.get(signal), (token) => (sent = token));
      const taken = ctx.waitFor(event).then(
        ({ token, payload }) => {
          onTaken(signal, token);
          return payload;
        },
        (error: unknown) => {
          // A payload that does not fit was taken, too: its step fails, and its sender need not wait.
          if (sent !== undefined) onTaken(signal, sent);
          throw error;
        },
      );
      // The step that waits hears of a cancel; one that does not wait yet has nothing to hear.
      taken.catch(() => undefined);
      this.#waits.set(signal, taken);
    }
  }

  /** What came with a signal, once it is there. */
  async payloadOf(signal: string): Promise<unknown> {
    return this.#waits.get(signal);
  }
}
