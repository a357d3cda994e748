import type { Clock } from '../model/clock.ts';
import type { Logger } from '../model/logger.ts';
import type { Provider } from '../providers/provider.ts';
import { maxTicks } from './due-ticks.ts';
import { makeTick } from './make-tick.ts';

export interface SchedulerParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long it trusts in hearing of changes before it looks for itself. */
  readonly recheckMs: number;
}

const minDue = 100;
const maxDue = 10_000;
const errorPauseMs = 1_000;
const contendedPauseMs = 100;
// Many changes at once are one reason to look.
const changePauseMs = 50;

/**
 * Makes the ticks of schedules happen. Every worker has one; that a tick happens once is the store's doing. It sleeps
 * until the next tick, and looks earlier when a schedule may have changed.
 */
export class Scheduler {
  readonly #params: SchedulerParams;
  #cancelAlarm: (() => void) | undefined;
  #alarmAt = Infinity;
  #looking: Promise<void> | undefined;
  #lookAgain = false;
  #lastLookAt = -Infinity;
  #due = minDue;
  #stopped = true;

  constructor(params: SchedulerParams) {
    this.#params = params;
  }

  start(): void {
    this.#stopped = false;
    this.#look();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelAlarm?.();
    this.#cancelAlarm = undefined;
    await this.#looking;
  }

  /** A schedule of this process changed: look soon. */
  changed(): void {
    this.#wakeAt(this.#params.clock.now() + changePauseMs);
  }

  /** Another process changed something, most likely no schedule: look, but not each time. */
  changedElsewhere(): void {
    this.#wakeAt(this.#lastLookAt + this.#params.recheckMs / 5);
  }

  #look(): void {
    if (this.#stopped) return;
    if (this.#looking !== undefined) {
      this.#lookAgain = true;
      return;
    }
    this.#lookAgain = false;
    this.#looking = this.#lookOnce();
  }

  async #lookOnce(): Promise<void> {
    const { clock, logger } = this.#params;
    let waitMs = errorPauseMs;
    try {
      waitMs = await this.#round();
    } catch (error) {
      logger.warn({ error }, 'looking at schedules failed; trying again');
    }
    this.#looking = undefined;
    this.#wakeAt(clock.now() + (this.#lookAgain ? 0 : waitMs));
  }

  /** Makes happen what is due; answers how long to sleep. */
  async #round(): Promise<number> {
    const { provider, clock, logger, recheckMs } = this.#params;
    this.#lastLookAt = clock.now();
    const { due, nowMs, nextAt } = await provider.dueSchedules(this.#due);
    // Those that are far behind come first, and would keep the others waiting until they have caught up.
    this.#due = due.length === this.#due ? Math.min(2 * this.#due, maxDue) : minDue;
    if (due.length > 0) {
      // Shared between them: ticks of many that catch up at once would hold up the process for seconds.
      const max = Math.ceil(maxTicks / due.length);
      const ticks = due.map((record) => makeTick(record, nowMs, max));
      const happened: boolean[] = [];
      for (let done = 0; done < ticks.length; done += maxTicks) {
        happened.push(...(await provider.tickSchedules(ticks.slice(done, done + maxTicks))));
      }
      for (const { name, error } of ticks) {
        if (error !== null) logger.error({ schedule: name, error }, 'a schedule cannot be read');
      }
      // Where none was ours, another worker is at it, or the store has trouble: no reason to hurry.
      return happened.includes(true) ? 0 : contendedPauseMs;
    }
    return nextAt === null ? recheckMs : Math.min(Math.max(0, nextAt - nowMs), recheckMs);
  }

  #wakeAt(atMs: number): void {
    if (this.#stopped || atMs >= this.#alarmAt) return;
    const { clock } = this.#params;
    this.#cancelAlarm?.();
    this.#alarmAt = atMs;
    this.#cancelAlarm = clock.setAlarm(atMs, () => {
      this.#alarmAt = Infinity;
      this.#look();
    });
  }
}
