import { PerdureError } from '../model/failures/errors.ts';
import { byteLength, decodePayload, encodePayload, type Payload } from '../model/values/payload.ts';
import { checkStateKey } from '../model/values/state.ts';
import type { LiveCode } from '../replay/live-code.ts';
import type { OrchestrationState } from './orchestration-context.ts';

/** Implements `ctx.state`: checks keys, values and limits, and issues commands to the replay engine. */
export class LiveState implements OrchestrationState {
  readonly #code: LiveCode;
  readonly #name: string;

  constructor(code: LiveCode, name: string) {
    this.#code = code;
    this.#name = name;
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as the interface
  get<T>(key: string): T | undefined {
    const name = checkStateKey(key);
    this.#code.enterToRead('state.get', name);
    return decodePayload(this.#code.state.get(name) ?? null) as T | undefined;
  }

  keys(): readonly string[] {
    this.#code.enterToRead('state.keys');
    return this.#code.state.keys();
  }

  set(key: string, value: unknown): void {
    const name = checkStateKey(key);
    if (value === undefined) {
      this.delete(name);
      return;
    }
    const what = `The value of state ${JSON.stringify(name)} of '${this.#name}'`;
    const payload = encodePayload(value, what, Number.POSITIVE_INFINITY);
    if (payload === null) return;
    if (!this.#isRecorded(name, payload)) this.#checkLimits(name, payload);
    this.#code.commands.setState(name, payload);
  }

  delete(key: string): boolean {
    const name = checkStateKey(key);
    this.#code.enter('state.delete', name);
    if (!this.#code.state.has(name)) return false;
    this.#code.commands.setState(name, null);
    return true;
  }

  /** Whether the history has this change: it was within the limits then, which may be lower now. */
  #isRecorded(key: string, payload: Payload): boolean {
    const recorded = this.#code.recordedNext;
    if (recorded?.kind !== 'stateSet') return false;
    return recorded.key === key && recorded.payload === payload;
  }

  #checkLimits(key: string, payload: Payload): void {
    const { state, stateLimits } = this.#code;
    const { keys, valueBytes } = stateLimits;
    if (payload.length * 3 > valueBytes && byteLength(payload) > valueBytes) {
      throw limitExceeded(
        `The value of state ${JSON.stringify(key)} is ${byteLength(payload)} bytes as JSON; the limit is ${valueBytes}. Store the data elsewhere and keep a reference, or raise stateLimits.valueBytes.`,
      );
    }
    if (state.size < keys || state.has(key)) return;
    throw limitExceeded(
      `State ${JSON.stringify(key)} would be key ${state.size + 1}; the limit is ${keys}. Delete keys, or raise stateLimits.keys.`,
    );
  }
}

function limitExceeded(message: string): PerdureError {
  return new PerdureError('STATE_LIMIT_EXCEEDED', message);
}
