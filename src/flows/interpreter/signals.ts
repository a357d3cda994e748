import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import {
  PerdureError,
  type Client,
  type EventToken,
  type OrchestrationContext,
  type StandardSchema,
} from '../../index.ts';
import { quote } from '../definition/flow-errors.ts';
import { signalEvent, type FlowGraph } from '../definition/graph.ts';
import { isActive, readRunInput, statusOf, takenSignal } from '../definition/run-format.ts';

/** Options of `signalFlow`. */
export interface SignalOptions {
  /** How long to wait until the run has received the signal, in milliseconds. Default: 30,000. */
  readonly timeoutMs?: number | undefined;
}

/** The arguments after the signal. The payload is optional if its type allows `undefined`. */
export type SignalArguments<Value> = undefined extends Value
  ? [payload?: NoInfer<Value>, options?: SignalOptions]
  : [payload: NoInfer<Value>, options?: SignalOptions];

const minPollMs = 2;
const maxPollMs = 100;

/**
 * Sends a signal to a flow run. Resolves when the run has received it, even if its step is not ready yet.
 *
 * A run receives each signal once. Rejects with `SIGNAL_ALREADY_DELIVERED` for a repeated signal, `UNKNOWN_SIGNAL` if the
 * flow has no such signal, `INSTANCE_OVER` if the run has ended, and `TIMEOUT`.
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
// The payload and the options follow the signal, as in `raiseEvent`.
export async function signalFlow(
  client: Client,
  id: string,
  signal: EventToken | string,
  ...[payload, options]: readonly [payload?: unknown, options?: SignalOptions]
): Promise<void> {
  const name = typeof signal === 'string' ? signal : signal.name;
  const deadline = performance.now() + (options?.timeoutMs ?? 30_000);
  await poll(deadline, name, () => isKnown(client, id, name));
  const before = await readTaken(client, id, name);
  if (before.taken !== undefined) throw alreadyDelivered(id, name);
  const sent: SentSignal = { token: randomUUID(), payload };
  const schema = typeof signal === 'string' ? undefined : signal.schema;
  await client.raiseEvent(id, sentEvent(name, schema), sent);
  await poll(deadline, name, async () => {
    const { taken } = await readTaken(client, id, name);
    if (taken !== undefined && taken !== sent.token) throw alreadyDelivered(id, name);
    return taken !== undefined;
  });
}

/** Whether a worker has started the run. Throws `UNKNOWN_SIGNAL` if its flow has no such signal. */
async function isKnown(client: Client, id: string, name: string): Promise<boolean> {
  const run = await readRunInput(client, id);
  if (run === undefined) {
    await readTaken(client, id, name);
    return false;
  }
  const known = run.flow.steps.flatMap(({ signal }) => (signal === undefined ? [] : [signal]));
  if (known.includes(name)) return true;
  throw new PerdureError(
    'UNKNOWN_SIGNAL',
    `Flow ${quote(run.flow.name)} of run ${quote(id)} has no signal ${quote(name)}. Signals: ${known.join(', ') || 'none'}.`,
  );
}

/** Reads the token of the signal that the run has received. Throws `INSTANCE_OVER` if it can receive none. */
async function readTaken(
  client: Client,
  id: string,
  name: string,
): Promise<{ readonly taken: string | undefined }> {
  const info = await client.handle(id).status();
  const taken = takenSignal(statusOf(info), name);
  if (taken !== undefined) return { taken };
  if (isActive(info.status)) return { taken: undefined };
  throw new PerdureError(
    'INSTANCE_OVER',
    `Run ${quote(id)} is ${info.status}, so it did not receive signal ${quote(name)}. Read its outcome with client.get().`,
  );
}

async function poll(deadline: number, name: string, isDone: () => Promise<boolean>): Promise<void> {
  let pauseMs = minPollMs;
  while (!(await isDone())) {
    if (performance.now() >= deadline) {
      throw new PerdureError(
        'TIMEOUT',
        `Timed out waiting for the run to receive signal ${quote(name)}. If it was sent, the run receives it when a worker runs the flow. Check that such a worker is running.`,
      );
    }
    await delay(pauseMs);
    pauseMs = Math.min(pauseMs * 2, maxPollMs);
  }
}

function alreadyDelivered(id: string, name: string): PerdureError {
  return new PerdureError(
    'SIGNAL_ALREADY_DELIVERED',
    `Run ${quote(id)} has already received signal ${quote(name)}. Each signal is received once; this one has no effect.`,
  );
}

/** The payload of a signal's event. */
interface SentSignal {
  readonly token: string;
  readonly payload?: unknown;
}

/**
 * Returns the event that carries a signal. With a schema, the event validates the signal's payload, after it passed
 * the token to `onSent`.
 */
function sentEvent(
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
        // Return a promise as it is: the event rejects it, because schemas must be synchronous.
        if ('then' in result) return result as Promise<never>;
        return result.issues === undefined
          ? { value: { token: sent.token, payload: result.value } }
          : { issues: result.issues };
      },
    },
  };
}

/** Receives the signals of a run: each one once, as soon as it arrives, even before its step is ready. */
export class Signals {
  readonly #waits = new Map<string, Promise<unknown>>();

  /** Waits for all signals of a graph, and validates their payloads. Calls `onTaken` with the token of each. */
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
          // An invalid payload is received, too: its step fails, and its sender stops waiting.
          if (sent !== undefined) onTaken(signal, sent);
          throw error;
        },
      );
      // `payloadOf` rejects for the step that waits. Without one, the rejection must not be unhandled.
      taken.catch(() => undefined);
      this.#waits.set(signal, taken);
    }
  }

  /** Resolves with the payload of a signal, once it was received. */
  async payloadOf(signal: string): Promise<unknown> {
    return this.#waits.get(signal);
  }
}
