import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { ObservedCall } from '../engine/connection.ts';
import type { World } from '../engine/scheduler.ts';

type Call<M extends keyof Provider> = Provider[M] extends (
  ...args: infer Args
) => Promise<infer Result>
  ? { readonly args: Args; readonly result: Result }
  : never;

/** Checks that closed sessions accept no jobs, paused schedules do not tick, and no run of a schedule starts by two ticks. */
export class RequestCheck {
  readonly #world: World;
  /** Sessions that were asked to end. */
  readonly #closed = new Set<string>();
  readonly #paused = new Set<string>();
  /** The runs that each schedule has started. */
  readonly #ticked = new Map<string, Set<string>>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Observes a committed call. */
  observe({ method, args, result }: ObservedCall): void {
    const call = { args, result } as never;
    switch (method as keyof Provider) {
      case 'shutdownSession':
        return this.#shutDown(call);
      case 'submitJobs':
        return this.#submitted(call);
      case 'putSchedule':
      case 'deleteSchedule':
        this.#ticked.clear();
        this.#paused.clear();
        return;
      case 'setSchedulePaused':
        return this.#setPaused(call);
      case 'dueSchedules':
        return this.#due(call);
      case 'tickSchedules':
        return this.#tickedSchedules(call);
      default:
    }
  }

  #shutDown({ args: [{ sessionId }], result }: Call<'shutdownSession'>): void {
    if (result.kind === 'accepted') this.#closed.add(sessionId);
  }

  #submitted({ args: [jobs], result }: Call<'submitJobs'>): void {
    for (const [index, { sessionId }] of jobs.entries()) {
      if (result[index]?.kind === 'created' && this.#closed.has(sessionId))
        this.#world.violate(`the session ${sessionId} accepts a job after it was closed`);
    }
  }

  #setPaused({ args: [name, isPaused], result }: Call<'setSchedulePaused'>): void {
    if (!result) return;
    if (isPaused) this.#paused.add(name);
    else this.#paused.delete(name);
  }

  #due({ result: { due } }: Call<'dueSchedules'>): void {
    for (const { name } of due) this.#expectActive(name, 'is due');
  }

  #expectActive(name: string, what: string): void {
    if (this.#paused.has(name)) this.#world.violate(`the schedule ${name} ${what}, and is paused`);
  }

  #tickedSchedules({ args: [ticks], result }: Call<'tickSchedules'>): void {
    for (const [index, { name, instances, tasks, whileRunning }] of ticks.entries()) {
      if (result[index] !== true) continue;
      this.#expectActive(name, 'ticks');
      // The store starts none of its runs while another one is live.
      if (whileRunning !== undefined) continue;
      const started = this.#ticked.get(name) ?? new Set();
      this.#ticked.set(name, started);
      for (const { instanceId } of [...instances, ...tasks]) {
        if (started.has(instanceId))
          this.#world.violate(`two ticks of ${name} start ${instanceId}`);
        started.add(instanceId);
      }
    }
  }
}
