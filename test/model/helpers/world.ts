import { LocalClient } from '../../../src/client/local-client.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { isPerdureError, ProviderError } from '../../../src/model/failures/errors.ts';
import { silentLogger } from '../../../src/model/logger.ts';
import { isTerminal } from '../../../src/model/status.ts';
import { WorkerRegistration } from '../../../src/runtime/leases/worker-registration.ts';
import { newWorker } from '../../../src/testing/conformance/sample-data.ts';
import type { FakeClock } from '../../../src/testing/fake-clock.ts';
import { HistoryCheck } from './check-history.ts';
import { waitUntilIdle, nextTurn } from './wait-until-idle.ts';
import { findRemainingRows } from './find-remaining-rows.ts';
import type { Coverage } from './coverage.ts';
import { Handlers } from './handlers.ts';
import { observeCall } from './observe-call.ts';
import { ReferenceModel } from './reference-model.ts';
import type { Command, Scenario } from './scenario.ts';
import type { Script } from './script.ts';
import { SimulatedProcess, slotsPerWorker } from './simulated-process.ts';
import { StartPermits } from './start-permits.ts';
import { modelHostId, StoreBoundary, type Connection } from './store-boundary.ts';
import { describeCall, type StoreCall } from './store-call.ts';

export interface WorldParams {
  readonly scenario: Scenario;
  readonly store: Provider;
  readonly clock: FakeClock;
  readonly coverage?: Coverage | undefined;
  /** Opens the provider of a process on the same database. Absent: all processes share `store`. */
  readonly openOwn?: ((index: number) => Promise<Provider>) | undefined;
  /** Prefix of its instance ids, so that a store can serve many worlds. */
  readonly prefix: string;
}

const repeatable: ReadonlySet<string> = new Set([
  'createInstances',
  'ackOrchestrationItems',
  'ackWorkItems',
  'ackTurns',
  'retryWorkItems',
  'abandonWorkItems',
]);

/** The codes with which a retry may reject. */
const retryErrors: ReadonlySet<string> = new Set([
  'INSTANCE_NOT_FOUND',
  'INSTANCE_NOT_RETRYABLE',
  'INSTANCE_STILL_RUNNING',
  'INVALID_INPUT',
]);

let lastPid = 0;

/** The pid of a simulated process. Unique, because stores serve many worlds. */
function nextPid(): number {
  lastPid += 1;
  return lastPid;
}

const healStepMs = 100;
// Longer than all leases, graces and clean-up limits together.
const healSteps = 150;
const maxInstances = 3;

/** Runs one scenario on the real runtime and store, and compares every commit with the model. */
export class World {
  readonly violations: string[] = [];
  /** The trace of the run, formatted on demand. */
  readonly #trace: (string | StoreCall)[] = [];
  readonly #params: WorldParams;
  readonly #model: ReferenceModel;
  readonly #boundary: StoreBoundary;
  readonly #handlers: Handlers;
  readonly #processes: SimulatedProcess[] = [];
  /** Cancels, terminates and raises events: in a separate process without a worker that never crashes. */
  readonly #operatorConnection: Connection;
  readonly #operator: LocalClient;
  readonly #permits = new StartPermits();
  readonly #repeatable: {
    readonly method: StoreCall['method'];
    readonly args: readonly unknown[];
  }[] = [];
  readonly #stopping = new Set<Promise<unknown>>();
  /** Instances whose status was `canceled`. */
  readonly #stopped = new Set<string>();
  /** The started scripts, by the number in their id. */
  readonly #scripts: Script[] = [];

  constructor(params: WorldParams) {
    const { store, clock, scenario } = params;
    this.#params = params;
    const violate = (what: string): void => void this.violations.push(what);
    this.#model = new ReferenceModel({ now: () => clock.now(), violate });
    this.#boundary = new StoreBoundary({
      store,
      clock,
      hints: scenario.hints,
      onCommitted: (call, connection) => this.#onCommitted(call, connection),
    });
    this.#operatorConnection = this.#boundary.connect();
    this.#operator = new LocalClient({ provider: this.#operatorConnection.provider, clock });
    this.#handlers = new Handlers(({ key, ctx, process }) => {
      this.#trace.push(`    ${process.name} runs ${key}`);
      if (this.#permits.allows(process.connection, ctx.idempotencyKey)) return;
      violate(`${process.name} runs ${key}, which it must not start`);
    });
  }

  get trace(): readonly string[] {
    return this.#trace.map((entry) =>
      typeof entry === 'string' ? entry : `    ${describeCall(entry)}`,
    );
  }

  /** Runs the scenario, heals the world, and checks the final state. */
  async run(): Promise<void> {
    await this.#join();
    const { commands, hold, holdFrom } = this.#params.scenario;
    for (const [index, command] of commands.entries()) {
      if (index === holdFrom) this.#boundary.holdAt(hold);
      await this.#obey(command);
      if (this.violations.length > 0) return;
    }
    await this.#heal();
    if (this.violations.length > 0) return;
    for (const instance of this.#model.instances.values()) {
      this.violations.push(...(await new HistoryCheck(this.#params.store, instance).run()));
    }
    this.violations.push(...(await findRemainingRows(this.#params.store, this.#model.gone)));
    if (this.violations.length === 0) await this.#checkSlots();
    if (this.violations.length === 0) await this.#close();
  }

  /** Crashes every process. */
  abandon(): void {
    for (const process of this.#processes) process.crash();
  }

  async #obey(command: Command): Promise<void> {
    this.#trace.push(JSON.stringify(command));
    const client = this.#operator;
    switch (command.do) {
      case 'start':
        this.#start(command);
        break;
      case 'cancel': {
        const { reason, cleanupMs } = command;
        const options = { reason, actor: `by ${reason}`, cleanupTimeout: cleanupMs };
        this.#ask(command.target, (id) => client.cancel(id, options));
        break;
      }
      case 'terminate':
        this.#ask(command.target, (id) =>
          client.terminate(id, { reason: 'enough', tree: command.tree }),
        );
        break;
      case 'delete':
        this.#ask(
          command.target,
          (id) => client.deleteInstance(id, { force: command.force }),
          'roots',
        );
        break;
      case 'prune':
        this.#ask(command.target, (id) =>
          client.pruneExecutions(id, { keepLast: command.keepLast }),
        );
        break;
      case 'raise':
        this.#ask(command.target, (id) => client.raiseEvent(id, 'go'));
        break;
      case 'retry':
        this.#retry(command.target, command.from);
        break;
      case 'pause':
        this.#ask(command.target, (id) => client.pause(id, { reason: 'later' }));
        break;
      case 'resume':
        this.#ask(command.target, (id) => client.resume(id));
        break;
      case 'tell':
        this.#trace.push(`  ${this.#handlers.tell(command.handler, command.word) ?? 'no handler'}`);
        break;
      case 'advance':
        await this.#advance(command.ms);
        break;
      case 'release':
        this.#trace.push(`  ${this.#boundary.release(command.call, command.fate) ?? 'nothing'}`);
        break;
      case 'repeat':
        this.#repeat(command.ack);
        break;
      case 'join':
        if (this.#alive.length < 3) await this.#join();
        break;
      case 'stop': {
        const process = this.#pick(this.#alive, command.process);
        if (process) this.#stop(process);
        break;
      }
      case 'crash': {
        const process = this.#pick(this.#alive, command.process);
        if (process) this.#crash(process, command.inFlight);
        break;
      }
      case 'takeover':
        await this.#takeOver();
    }
    if (command.pace === 'rest') {
      await this.rest();
      if (this.#isUndisturbed) this.#expectNothingLate();
    } else for (let round = 0; round < command.pace; round++) await nextTurn();
  }

  #start({ script, process }: Command & { do: 'start' }): void {
    const starter = this.#pick(this.#alive, process);
    if (starter === undefined) return;
    const { prefix, scenario } = this.#params;
    const { length } = this.#scripts;
    // One start in three reuses an existing id.
    const isRepeat = length === maxInstances || (length > 0 && script % 3 === 2);
    const index = isRepeat ? script % length : length;
    const input = this.#scripts[index] ?? this.#pick(scenario.scripts, script);
    if (input === undefined) return;
    this.#scripts[index] = input;
    this.#startIn(starter, `${prefix}${index}`, input);
  }

  #startIn({ perdure }: SimulatedProcess, id: string, script: Script): void {
    void perdure.client.start('scripted', script, { id }).catch((error: unknown) => {
      this.#trace.push(`  starting ${id}: ${String(error)}`);
    });
  }

  #ask(target: number, request: (id: string) => Promise<unknown>, whom?: 'roots'): void {
    const { instances, gone } = this.#model;
    const some = [...instances.values()].filter(({ parent }) => !whom || parent === null);
    const live = some.flatMap(({ id, status }) => (isTerminal(status) ? [] : [id]));
    // One request in three may also target an ended or deleted instance.
    const all = [...some.map(({ id }) => id), ...gone];
    const id = this.#pick(live.length === 0 || target % 3 === 0 ? all : live, target);
    if (id === undefined) return;
    request(id).catch((error: unknown) => void this.#trace.push(`  ${id}: ${String(error)}`));
  }

  /** Retries a root. Three in four requests target one that has ended. */
  #retry(target: number, from: 'failure' | 'start'): void {
    const { instances, gone } = this.#model;
    const roots = [...instances.values()].filter(({ parent }) => parent === null);
    const ended = roots.flatMap(({ id, status }) => (isTerminal(status) ? [id] : []));
    const all = [...instances.keys(), ...gone];
    const id = this.#pick(ended.length === 0 || target % 4 === 0 ? all : ended, target);
    if (id === undefined) return;
    this.#operator.retry(id, { from, actor: 'ann' }).catch((error: unknown) => {
      this.#trace.push(`  ${id}: ${String(error)}`);
      if (error instanceof ProviderError && this.#params.scenario.profile !== 'races') return;
      const isExpected = isPerdureError(error) && retryErrors.has(error.code);
      if (!isExpected) this.violations.push(`a retry of ${id} rejected with ${String(error)}`);
    });
  }

  #repeat(index: number): void {
    const call = this.#pick(this.#repeatable, index);
    if (call === undefined) return;
    const { provider } = this.#operatorConnection;
    const method = provider[call.method] as (...args: readonly unknown[]) => Promise<unknown>;
    method(...call.args).catch((error: unknown) => void this.#trace.push(`  ${String(error)}`));
  }

  async #join(): Promise<void> {
    const { clock, scenario } = this.#params;
    this.#processes.push(
      await SimulatedProcess.start({
        boundary: this.#boundary,
        store: await this.#params.openOwn?.(this.#processes.length),
        pid: nextPid(),
        clock,
        name: `p${this.#processes.length}`,
        fastPaths: scenario.fastPaths,
        warm: scenario.warm,
        handle: (ctx, input, process) => this.#handlers.handle(ctx, input, process),
        onBlocked: (reason) => void this.violations.push(`an instance is blocked: ${reason}`),
      }),
    );
  }

  #stop(process: SimulatedProcess): void {
    const stopped = process.stop().finally(() => this.#stopping.delete(stopped));
    this.#stopping.add(stopped);
  }

  /** Another worker of the host starts, detects the dead processes, and takes over their claims. */
  async #takeOver(): Promise<void> {
    const { clock } = this.#params;
    const alive = new Set(this.#processes.flatMap(({ isGone, pid }) => (isGone ? [] : [pid])));
    const pid = nextPid();
    const workerId = `takeover${pid}`;
    const registration = new WorkerRegistration({
      store: this.#boundary.connect().provider,
      logger: silentLogger,
      clock,
      host: {
        hostId: modelHostId,
        self: { pid, startTime: '1' },
        hasDied: (other) => !alive.has(other.pid),
      },
      worker: {
        workerId,
        heartbeatMs: 10_000,
        leaseMs: 300,
        describe: () => newWorker(workerId),
      },
    });
    registration.start();
    for (let round = 0; round < 3; round++) await nextTurn();
    await registration.stop();
  }

  #crash(process: SimulatedProcess, inFlight: boolean): void {
    process.crash({ inFlight });
    this.#handlers.forget(process);
  }

  async #advance(ms: number): Promise<void> {
    await this.rest();
    await this.#params.clock.advance(ms);
    this.#boundary.wakeUp();
  }

  /** Resolves when the processes are idle: only time or a command can cause the next step. */
  async rest(): Promise<void> {
    await waitUntilIdle(this.#boundary, { otherMoves: () => this.#handlers.moves });
  }

  /** Nothing crashed or failed, and no call is held: due work must be done. */
  get #isUndisturbed(): boolean {
    const { profile } = this.#params.scenario;
    return profile === 'races' && this.#boundary.held.length === 0;
  }

  /** No instance is overdue, and all handlers of deleted instances are aborted. */
  #expectNothingLate(): void {
    this.#model.expectNoneOverdue();
    if (!this.#params.scenario.hints) return;
    const { instances } = this.#model;
    const notAborted = this.#handlers.notAborted(
      (id, incarnation) => instances.get(id)?.incarnation === incarnation,
    );
    for (const key of notAborted)
      this.violations.push(`${key} was not aborted although its instance was deleted`);
  }

  get #alive(): readonly SimulatedProcess[] {
    return this.#processes.filter((process) => !process.isGone && !process.isStopping);
  }

  #pick<T>(from: readonly T[], index: number): T | undefined {
    return from[index % Math.max(from.length, 1)];
  }

  async #onCommitted(call: StoreCall, connection: Connection): Promise<void> {
    const { clock, store } = this.#params;
    this.#trace.push(call);
    if (repeatable.has(call.method)) this.#repeatable.push(call);
    this.#params.coverage?.observe(call, this.#model);
    observeCall(this.#model, call, clock.now());
    this.#permits.observe(call, connection, this.#model);
    const { instances, gone } = this.#model;
    for (const id of gone) this.#stopped.delete(id);
    if (call.method === 'retryInstances') {
      for (const { source } of call.args[0]) this.#stopped.delete(source.instanceId);
    }
    for (const record of await store.getInstances([...instances.keys(), ...gone])) {
      if (record === undefined) continue;
      this.#model.compare(record);
      if (record.status === 'canceled') await this.#expectAllStopped(record.instanceId);
    }
  }

  /** No lease of a canceled instance is held, except by abandoned work. */
  async #expectAllStopped(id: string): Promise<void> {
    if (this.#stopped.has(id)) return;
    this.#stopped.add(id);
    const items = [...(this.#model.instances.get(id)?.items.values() ?? [])];
    for (const { operation } of await this.#params.store.listRunningItems(id)) {
      const isLeft = items.some(
        (item) => item.operation === operation && item.cancellation === 'abandon',
      );
      if (!isLeft) this.violations.push(`${id} is canceled, but ${operation} runs`);
    }
  }

  /** Releases all calls, ends all handlers, and advances the clock: every instance must end. */
  async #heal(): Promise<void> {
    this.#trace.push('heal');
    this.#boundary.open();
    await this.#join();
    await this.rest();
    await this.#resumeAll();
    await this.#finish();
  }

  async #resumeAll(): Promise<void> {
    for (const { id, paused } of this.#model.instances.values()) {
      if (paused) await this.#operator.resume(id);
    }
  }

  async #finish(): Promise<void> {
    for (let step = 0; step < healSteps && this.violations.length === 0; step++) {
      this.#handlers.heal();
      await this.rest();
      const unfinished = this.#unfinished;
      if (unfinished.length === 0 && this.#stopping.size === 0) return;
      for (const id of unfinished) {
        await this.#operator.raiseEvent(id, 'go').catch(() => undefined);
      }
      await this.#advance(healStepMs);
    }
    for (const id of this.#unfinished) this.violations.push(`${id} is stuck`);
    if (this.#stopping.size > 0) this.violations.push('a worker does not stop');
  }

  get #unfinished(): readonly string[] {
    return [...this.#model.instances.values()].flatMap(({ id, status, items }) =>
      isTerminal(status) && items.size === 0 ? [] : [id],
    );
  }

  /** The oldest worker, now alone, must run as many activities as it has slots: none was lost. */
  async #checkSlots(): Promise<void> {
    const [worker, ...others] = this.#alive;
    if (worker === undefined) return;
    for (const process of others) this.#stop(process);
    await this.rest();
    const slots = slotsPerWorker;
    this.#handlers.isHealing = false;
    this.#handlers.running = [];
    const call = { cancellation: 'request', attempts: 1, deaf: false } as const;
    const script: Script = { steps: [{ do: 'call', call }], onError: 'throw', cleanUp: false };
    for (let slot = 0; slot < slots; slot++) {
      this.#startIn(worker, `${this.#params.prefix}slot${slot}`, script);
    }
    await this.#passTimeUntil(() => this.#handlers.running.length === slots);
    const { length } = this.#handlers.running;
    if (length !== slots) this.violations.push(`${length} of ${slots} slots are free`);
    await this.#finish();
  }

  /** Advances the clock, for workers that back off after a store error. */
  async #passTimeUntil(isThere: () => boolean): Promise<void> {
    await this.rest();
    for (let step = 0; step < 5 && !isThere(); step++) await this.#advance(healStepMs);
    await this.rest();
  }

  async #close(): Promise<void> {
    const { clock } = this.#params;
    this.#trace.push('close');
    const operatorClosed = this.#operator.close();
    this.#stopping.add(operatorClosed);
    void operatorClosed.finally(() => this.#stopping.delete(operatorClosed));
    for (const process of this.#processes) {
      if (process.isGone) continue;
      const closed = process.close().finally(() => this.#stopping.delete(closed));
      this.#stopping.add(closed);
    }
    await this.#passTimeUntil(() => this.#stopping.size === 0);
    if (this.#stopping.size > 0) this.violations.push('a process does not close');
    if (clock.alarmCount > 0) this.violations.push(`${clock.alarmCount} alarms are left`);
    const { listeners } = this.#boundary;
    if (listeners > 0) this.violations.push(`${listeners} listeners are left`);
  }
}
