import type { Clock } from '../../model/clock.ts';
import { NondeterminismError } from '../../model/failures/errors.ts';
import { decodeMessage } from '../../model/message.ts';
import type { Registry } from '../../orchestration/registry.ts';
import type { CreateResult, NewInstance } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { FreshReplays } from './fresh-replays.ts';
import { LiveInstance } from './live-instance.ts';
import type { ResolvedOptions } from '../options.ts';
import type { ProgramFactory } from './program-factory.ts';
import type { TurnSubject } from './turn-effects.ts';
import type { Turns } from './turns.ts';

export interface FirstTurnsParams {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly registry: Registry;
  readonly programs: ProgramFactory;
  readonly turns: Turns;
  readonly options: ResolvedOptions;
  readonly replays: FreshReplays;
}

/** Creates an instance together with its first turn when its code is registered in this process: fast path 3. */
export class FirstTurns {
  readonly #params: FirstTurnsParams;
  readonly #underWay = new Set<Promise<unknown>>();
  #stopped = false;

  constructor(params: FirstTurnsParams) {
    this.#params = params;
  }

  /** Declines from now on, and waits for what was begun. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.allSettled(this.#underWay);
  }

  /** Declines with `undefined` when this process cannot run it. */
  start(instance: NewInstance): Promise<CreateResult> | undefined {
    const { registry } = this.#params;
    const version = instance.version ?? registry.latest(instance.name)?.version;
    if (this.#stopped || version === undefined) return undefined;
    if (registry.find(instance.name, version) === undefined) return undefined;
    const created = this.#create(instance, version);
    this.#underWay.add(created);
    const forget = (): boolean => this.#underWay.delete(created);
    created.then(forget, forget);
    return created;
  }

  async #create(instance: NewInstance, version: string): Promise<CreateResult> {
    const { provider, clock, programs, turns, options, replays } = this.#params;
    const { instanceId, incarnation, name } = instance;
    const subject: TurnSubject = { instanceId, executionId: 1, name, version, parent: null };
    let code = programs.create({ ...subject, incarnation });
    const { execution } = code;
    const nowMs = Math.floor(clock.now());
    const messages = [decodeMessage(instance.start)];
    let ran;
    try {
      ran = await execution.turn({ messages, nowMs, version });
      if (options.alwaysReplay) code = await replays.replay({ ...subject, incarnation }, code, ran);
    } catch (error) {
      // Code that cannot run this start: it is kept, and held back until somebody can.
      execution.dispose();
      if (!(error instanceof NondeterminismError)) throw error;
      const [kept] = await provider.createInstances([instance]);
      return kept as CreateResult;
    }
    const time = { path: 'fast', nowMs } as const;
    const firstTurn = turns.plan(subject, ran, time);
    const sentAt = clock.monotonic();
    let result: CreateResult | undefined;
    try {
      [result] = await provider.createInstances([{ ...instance, firstTurn }]);
    } finally {
      if (result?.kind !== 'created') {
        code.execution.dispose();
        turns.refused(undefined, firstTurn);
      }
    }
    if (result?.kind === 'created') {
      const { instanceKey, claimed } = result;
      const live = new LiveInstance({
        instanceKey,
        subject,
        incarnation,
        code,
        lastTurn: null,
      });
      turns.committed(live, firstTurn, { ...time, claimed, sentAt });
    }
    return result as CreateResult;
  }
}
