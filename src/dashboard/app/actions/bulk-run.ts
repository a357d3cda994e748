import { signal } from '@preact/signals';
import { ApiError } from '../api/api-error.ts';
import { call } from '../api/call.ts';
import type { Operation, ResponseBody } from '../api/operations.ts';
import type { Conditions } from '../pages/instances/filter.ts';
import type { ActionKind, ActionTarget } from '../state/actions.ts';
import type { StoredStatus } from '../words/status.ts';
import { parsePayload, type ActionInput } from './action-input.ts';
import { runOn } from './run-action.ts';

type BulkResult = ResponseBody<'bulkCancel'>;
export type Refusal = BulkResult['refused'][number];

const routes = {
  cancel: 'bulkCancel',
  terminate: 'bulkTerminate',
  retry: 'bulkRetry',
  pause: 'bulkPause',
  resume: 'bulkResume',
  raiseEvent: 'bulkRaiseEvent',
  delete: 'bulkDelete',
  prune: 'bulkPrune',
} as const satisfies Partial<Record<ActionKind, Operation>>;

/** Actions that work on all that match a filter. */
export type BulkKind = keyof typeof routes;

export function isBulk(action: ActionKind): action is BulkKind {
  return action in routes;
}

/** The conditions of a list as the filter of a bulk request. */
function toBulkFilter({ tag = [], ...rest }: Conditions): Record<string, unknown> {
  const tags = Object.fromEntries(
    tag.map((one) => {
      const at = one.indexOf('=');
      return [one.slice(0, at), one.slice(at + 1)];
    }),
  );
  return { ...rest, ...(tag.length > 0 && { tags }) };
}

function toBody(
  action: BulkKind,
  conditions: Conditions,
  input: ActionInput,
): Record<string, unknown> {
  const filter = toBulkFilter(conditions);
  const { value } = parsePayload(input.payload);
  return {
    filter,
    ...(Object.keys(filter).length === 0 && { all: true }),
    ...(input.reason.trim() !== '' && { reason: input.reason.trim() }),
    ...(action === 'cancel' &&
      input.cleanupTimeout.trim() !== '' && { cleanupTimeout: input.cleanupTimeout.trim() }),
    ...(['terminate', 'pause', 'resume'].includes(action) && { tree: input.tree }),
    ...(action === 'retry' && { from: input.from }),
    ...(action === 'raiseEvent' && {
      name: input.eventName.trim(),
      ...(value !== undefined && { payload: value }),
    }),
    ...(action === 'prune' && { keepLast: Math.max(0, Number(input.keepLast) || 0) }),
  };
}

/** Counts what an action would change. */
export async function dryRun(
  action: BulkKind,
  conditions: Conditions,
  input: ActionInput,
  abort: AbortSignal,
): Promise<BulkResult> {
  const body = {
    ...toBody(action, conditions, { ...input, eventName: input.eventName || 'event' }),
    dryRun: true,
  };
  return call(routes[action], { body }, abort);
}

const idsAtOnce = 200;
/** Chosen instances whose statuses are read for a dry run; of more, none. */
const maxChosen = 1_000;

/** Counts chosen instances by status. `undefined`: too many to read. */
export async function countChosen(
  ids: readonly string[],
  abort: AbortSignal,
): Promise<Partial<Record<StoredStatus, number>> | undefined> {
  if (ids.length > maxChosen) return undefined;
  const counts: Partial<Record<StoredStatus, number>> = {};
  for (let at = 0; at < ids.length; at += idsAtOnce) {
    const body = { ids: ids.slice(at, at + idsAtOnce) };
    const { items } = await call('explainInstances', { body }, abort);
    for (const { instance } of items) {
      counts[instance.status] = (counts[instance.status] ?? 0) + 1;
    }
  }
  return counts;
}

const parallel = 6;
const maxRefusals = 200;

/** A bulk action that runs. It goes on while pages change, as long as this tab is open. */
export class BulkRun {
  readonly action: ActionKind;
  readonly title: string;
  readonly total = signal<number | undefined>(undefined);
  readonly changed = signal(0);
  readonly refused = signal<readonly Refusal[]>([]);
  readonly refusedMore = signal(0);
  readonly state = signal<'running' | 'done' | 'stopped' | 'failed'>('running');
  readonly error = signal<ApiError | undefined>(undefined);
  readonly startedAt = Date.now();
  readonly #abort = new AbortController();
  readonly #input: ActionInput;

  constructor(action: ActionKind, title: string, input: ActionInput, total: number | undefined) {
    this.action = action;
    this.title = title;
    this.#input = input;
    this.total.value = total;
  }

  /** What was changed stays changed. */
  stop(): void {
    this.#abort.abort();
  }

  async run(target: ActionTarget): Promise<void> {
    try {
      if (target.kind === 'filter' && isBulk(this.action))
        await this.#byFilter(this.action, target.conditions);
      else if (target.kind === 'ids') await this.#byIds(target.ids);
      this.state.value = this.#abort.signal.aborted ? 'stopped' : 'done';
    } catch (error) {
      if (this.#abort.signal.aborted) {
        this.state.value = 'stopped';
        return;
      }
      this.error.value =
        error instanceof ApiError ? error : new ApiError(-1, 'UNEXPECTED', String(error));
      this.state.value = 'failed';
    }
  }

  async #byFilter(action: BulkKind, conditions: Conditions): Promise<void> {
    const body = toBody(action, conditions, this.#input);
    let cursor: string | undefined;
    let changed = 0;
    for (;;) {
      const request = { body: { ...body, ...(cursor !== undefined && { cursor }) } };
      const result = await call(routes[action], request, this.#abort.signal);
      changed += result.changed;
      this.changed.value = changed;
      this.refused.value = [...this.refused.peek(), ...result.refused].slice(0, maxRefusals);
      this.refusedMore.value += result.refusedMore;
      if (result.done || result.cursor === undefined) return;
      cursor = result.cursor;
    }
  }

  async #byIds(ids: readonly string[]): Promise<void> {
    const waiting = [...ids];
    const work = async (): Promise<void> => {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
        if (this.#abort.signal.aborted) return;
        try {
          const { changed, text = '' } = await runOn(
            this.action,
            id,
            this.#input,
            this.#abort.signal,
          );
          if (changed) this.changed.value += 1;
          else this.#refuse({ id, code: 'INVALID_INPUT', reason: text });
        } catch (error) {
          if (!(error instanceof ApiError) || error.isUnreachable || error.status === 401)
            throw error;
          this.#refuse({ id, code: error.code as Refusal['code'], reason: error.message });
        }
      }
    };
    await Promise.all(Array.from({ length: parallel }, work));
  }

  #refuse(refusal: Refusal): void {
    if (this.refused.peek().length < maxRefusals)
      this.refused.value = [...this.refused.peek(), refusal];
    else this.refusedMore.value += 1;
  }
}

/** The bulk action whose progress is shown. */
export const bulkRun = signal<BulkRun | undefined>(undefined);
