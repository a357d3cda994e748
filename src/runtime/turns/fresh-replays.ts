import { NondeterminismError } from '../../model/failures/errors.ts';
import { decodeEvent, encodeEvent, type HistoryEvent } from '../../model/event.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { TurnResult } from '../../replay/execution.ts';
import type { ResolvedOptions } from '../options.ts';
import type { InstanceCode, ProgramFactory, ProgramSubject } from './warm-instance.ts';

export interface FreshReplaysParams {
  readonly provider: Provider;
  readonly programs: ProgramFactory;
  readonly options: ResolvedOptions;
}

/** An instance whose turn is checked. It has no key before its first committed turn. */
export interface ReplaySubject extends ProgramSubject {
  readonly instanceKey?: number;
}

/**
 * Replays each turn with fresh code before it commits: the option `alwaysReplay`.
 *
 * A turn whose replay disagrees is never committed. The next claim of the instance gets the first disagreement from
 * `take`, because another replay of the same code may agree by chance.
 */
export class FreshReplays {
  readonly #params: FreshReplaysParams;
  /** By incarnation. */
  readonly #disagreements = new Map<string, NondeterminismError>();

  constructor(params: FreshReplaysParams) {
    this.#params = params;
  }

  /**
   * Replays the stored history and the new turn. Returns the replayed code, which replaces `code`, except after a turn
   * that has validated updates. Throws `NondeterminismError` where the two disagree.
   */
  async replay(
    subject: ReplaySubject,
    code: InstanceCode,
    result: TurnResult,
  ): Promise<InstanceCode> {
    const history = await this.#history(subject, result);
    // Deleted, or continued by another worker: the store rejects the turn.
    if (history.length !== result.firstEventId + result.events.length - 1) return code;
    const fresh = this.#params.programs.create(subject, 'replay');
    try {
      // The time of a failure between turns is not deterministic: compare only the events before it.
      const events = result.isBreakage === true ? history.slice(0, -1) : history;
      await fresh.execution.replay(events);
      if (result.isBreakage !== true) fresh.execution.assertReplayed();
      if (hasValidated(result)) {
        fresh.execution.dispose();
        return code;
      }
      fresh.faults.join(code.faults);
      code.execution.dispose();
      return { ...fresh, faults: code.faults };
    } catch (error) {
      fresh.execution.dispose();
      if (error instanceof NondeterminismError) this.#remember(subject, error);
      throw error;
    }
  }

  /**
   * Returns the lines of code that issued the operations that an ended execution never awaited. Replays its history, so
   * that other executions do not have to record lines. Empty if that fails.
   */
  async placesOfUnawaited(subject: ReplaySubject & { readonly instanceKey: number }) {
    const { provider, programs } = this.#params;
    const { instanceKey, executionId } = subject;
    const { execution } = programs.create(subject, 'places');
    try {
      const [stored = []] = await provider.readHistory([{ instanceKey, executionId, after: 0 }]);
      await execution.replay(stored.map(decodeEvent));
      return execution.neverAwaitedPlaces;
    } catch {
      return [];
    } finally {
      execution.dispose();
    }
  }

  /** Returns the disagreement of an instance, once. */
  take(incarnation: string): NondeterminismError | undefined {
    const disagreement = this.#disagreements.get(incarnation);
    if (disagreement !== undefined) this.#disagreements.delete(incarnation);
    return disagreement;
  }

  #remember({ instanceId, incarnation }: ReplaySubject, error: NondeterminismError): void {
    const { logger } = this.#params.options;
    const { eventId: event, recorded, issued } = error;
    // Without the message, because it quotes payloads.
    logger.error({ instanceId, event, recorded, issued }, 'replay disagrees with history');
    this.#disagreements.set(incarnation, error);
  }

  /** The events as the store returns them after the commit. */
  async #history(
    { instanceKey, executionId }: ReplaySubject,
    { firstEventId, events }: TurnResult,
  ): Promise<readonly HistoryEvent[]> {
    const fresh = events.map((event) => decodeEvent(encodeEvent(event)));
    if (instanceKey === undefined || firstEventId === 1) return fresh;
    const { provider } = this.#params;
    const [stored = []] = await provider.readHistory([{ instanceKey, executionId, after: 0 }]);
    return [...stored.map(decodeEvent), ...fresh];
  }
}

/**
 * Whether a turn has validated updates, which a replay does not do. If a validation has changed a variable, the code of the
 * turn now differs from a replay. It therefore runs the next turn, whose replay detects the difference.
 */
function hasValidated({ rejections, events }: TurnResult): boolean {
  return rejections !== undefined || events.some(({ kind }) => kind === 'updateAccepted');
}
