import { LocalClient } from '../../../src/client/local-client.ts';
import type { Job } from '../../../src/jobs/job.ts';
import type { Session } from '../../../src/jobs/sessions.ts';
import { isPerdureError } from '../../../src/model/failures/errors.ts';
import { isTerminal } from '../../../src/model/status.ts';
import type { Client as Operator } from '../../../src/index.ts';
import type { Clock } from '../../../src/model/clock.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { outcomeOf, type Outcome } from '../outcome.ts';
import { FaultyConnection } from './faulty-connection.ts';
import type { ControlledHandlers } from './controlled-handlers.ts';
import type { Mode, Scenario, Step, Where } from './job-scenario.ts';

/** Shared by all scenarios: a store with a worker, its handlers and an operator. */
export interface ScenarioContext {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly operator: Operator;
  readonly handlers: ControlledHandlers;
  /** Expires the leases of a disconnected client. */
  readonly expireLeases: () => Promise<void>;
  /** Time limit of each wait. Default: 10 s. */
  readonly timeoutMs?: number;
}

interface Tracked {
  readonly run: string;
  readonly where: Where;
  readonly mode: Mode;
  readonly job: Job;
  readonly outcomes: Promise<Outcome>[];
  readonly chunks: unknown[];
  /** The scenario closed or canceled it, or left its stream. */
  isStopped: boolean;
  isClosed: boolean;
  isReleased: boolean;
  isRead: boolean;
  /** Its run was deleted, and another run has its id. */
  isReplaced: boolean;
}

const defaultTimeoutMs = 10_000;
/** Modes that wait for a release or a cancel. */
const waitingModes: readonly Mode[] = ['gated', 'chatty'];

/** Codes of outcomes that are not replies. */
const withoutReply = ['JOB_CLOSED', 'SESSION_CLOSED', 'TIMEOUT', 'CLOSED'];

/**
 * One scenario on a real store and worker. Checks at the end: every wait ends, each job has exactly one reply and it
 * is its own, no job is canceled by the stop of another, and no rows, handlers or listeners are left.
 */
export class ScenarioRun {
  readonly violations: string[] = [];
  readonly #context: ScenarioContext;
  readonly #timeoutMs: number;
  readonly #connection: FaultyConnection;
  readonly #client: LocalClient;
  readonly #prefix: string;
  readonly #jobs: Tracked[] = [];
  /** Runs that are not jobs but have the id of one. */
  readonly #bystanders = new Set<string>();
  readonly #background: Promise<unknown>[] = [];
  readonly #sessions: Record<'subject' | 'control', Session | undefined>;
  /** Sessions whose jobs were canceled, and sessions that reject new jobs. */
  readonly #forced = new Set<Where>();
  readonly #closed = new Set<Where>();
  /** The subject was shut down gracefully, so it may have drained before a forceful shutdown or close. */
  #mayHaveDrained = false;
  #isLeft = false;

  constructor(context: ScenarioContext, prefix: string) {
    this.#context = context;
    this.#timeoutMs = context.timeoutMs ?? defaultTimeoutMs;
    this.#prefix = prefix;
    this.#connection = new FaultyConnection(context.provider);
    this.#sessions = { subject: undefined, control: undefined };
    this.#client = new LocalClient({
      provider: this.#connection.provider,
      clock: context.clock,
      recheckMs: 3,
    });
  }

  async run({ maxInFlight, steps }: Scenario): Promise<void> {
    const options = { maxInFlight, idleTimeout: '5s' };
    this.#sessions.subject = await this.#client.openSession({ ...options, label: this.#prefix });
    this.#sessions.control = await this.#client.openSession(options);
    for (const step of steps) await this.#take(step);
    await this.#finish();
  }

  async #take(step: Step): Promise<void> {
    switch (step.kind) {
      case 'submit':
        return this.#submit(step);
      case 'shutdown':
        return this.#shutdown(step.mode, step.by);
      case 'goodbye':
        this.#isLeft = true;
        this.#force('subject');
        this.#background.push(this.#session('subject').close());
        return;
      case 'die':
        return this.#die();
      case 'break':
        return this.#connection.failNext(step.method, step.when);
      case 'pass':
        return pass(step.turns);
      default: {
        const tracked = this.#jobs[step.job % Math.max(this.#jobs.length, 1)];
        if (tracked !== undefined) await this.#takeWith(tracked, step.kind);
      }
    }
  }

  async #takeWith(tracked: Tracked, kind: Extract<Step, { job: number }>['kind']): Promise<void> {
    const { job } = tracked;
    switch (kind) {
      case 'result':
        tracked.outcomes.push(outcomeOf(job.result()));
        return;
      case 'hurriedResult':
        tracked.outcomes.push(outcomeOf(job.result({ timeout: 0 })));
        return;
      case 'close':
        tracked.isStopped = true;
        tracked.isClosed = true;
        job.close();
        return;
      case 'cancel':
        tracked.isStopped = true;
        this.#background.push(outcomeOf(job.cancel({ reason: 'by the scenario' })));
        return;
      case 'release':
        tracked.isReleased = true;
        return this.#context.handlers.release(tracked.run);
      case 'read':
        return this.#read(tracked, false);
      case 'leave':
        return this.#read(tracked, true);
      case 'reuse':
        return this.#reuse(tracked);
    }
  }

  #submit({ where, mode, nested }: Extract<Step, { kind: 'submit' }>): void {
    const run = `${this.#prefix}-${this.#jobs.length}`;
    const submitter = where === 'own' ? this.#client : this.#session(where);
    const job = nested
      ? submitter.submit('outer', { run, mode }, { id: run })
      : submitter.submit('plain', { run, mode }, { id: run, kind: 'task' });
    this.#jobs.push({
      run,
      where,
      mode,
      job,
      outcomes: [],
      chunks: [],
      isStopped: false,
      isClosed: false,
      isReleased: false,
      isRead: false,
      isReplaced: false,
    });
  }

  /** Untaken replies stay for a day if the session drained before its client left. */
  get #keepsReplies(): boolean {
    return this.#isLeft && this.#mayHaveDrained;
  }

  #shutdown(mode: 'graceful' | 'forceful', by: 'client' | 'operator'): void {
    if (mode === 'forceful') this.#force('subject');
    else this.#mayHaveDrained = true;
    this.#closed.add('subject');
    const { id } = this.#session('subject');
    const ended =
      by === 'client'
        ? this.#session('subject').shutdown(mode)
        : this.#context.operator.sessions.shutdown(id, mode);
    this.#background.push(outcomeOf(ended));
  }

  /** Disconnects the client until its leases have expired. */
  async #die(): Promise<void> {
    this.#force('subject');
    this.#force('control');
    // The client reopens its own session after the expiry, so later jobs are not affected.
    this.#closed.add('own');
    for (const tracked of this.#jobs) tracked.isStopped = true;
    this.#connection.isDisconnected = true;
    await this.#context.expireLeases();
    this.#connection.isDisconnected = false;
  }

  #read(tracked: Tracked, leaves: boolean): void {
    if (tracked.isRead || tracked.isClosed) return;
    tracked.isRead = true;
    if (leaves) {
      tracked.isStopped = true;
      tracked.isClosed = true;
    }
    this.#background.push(outcomeOf(readSome(tracked, leaves)));
  }

  /** Deletes the run and starts another with its id, which must not be canceled. */
  async #reuse(tracked: Tracked): Promise<void> {
    const { operator } = this.#context;
    tracked.isReplaced = true;
    this.#bystanders.delete(tracked.run);
    await outcomeOf(operator.deleteInstance(tracked.run, { force: true }));
    const work = { run: `${tracked.run}-other`, mode: 'quick' };
    const { error } = await outcomeOf(operator.runTask('plain', work, { id: tracked.run }));
    if (error === undefined) this.#bystanders.add(tracked.run);
    else if (!isPerdureError(error, 'INSTANCE_ALREADY_EXISTS')) throw error;
  }

  /** Waits until every canceled job has ended without a release of its handler. */
  async #untilStopped(): Promise<void> {
    const stopped = this.#jobs.filter(
      ({ mode, where, isStopped, isReleased, isReplaced }) =>
        waitingModes.includes(mode) &&
        !isReleased &&
        !isReplaced &&
        (isStopped || this.#forced.has(where)),
    );
    for (const { run } of stopped) {
      for (;;) {
        const info = await this.#context.operator.get(run);
        if (info === undefined || isTerminal(info.status)) break;
        await pass(5);
      }
    }
  }

  async #finish(): Promise<void> {
    await this.#withTimeout('a cancel', this.#untilStopped());
    for (const { run } of this.#jobs) this.#context.handlers.release(run);
    for (const { job, outcomes } of this.#jobs) outcomes.push(outcomeOf(job.result()));
    const outcomes = this.#jobs.flatMap((one) => one.outcomes);
    await this.#withTimeout('a result', Promise.all(outcomes));
    const { subject, control } = this.#sessions;
    for (const session of [subject, control]) {
      if (session !== undefined) this.#background.push(outcomeOf(session.shutdown('forceful')));
    }
    await this.#withTimeout('a call', Promise.all(this.#background));
    for (const tracked of this.#jobs) await this.#checkJob(tracked);
    await this.#withTimeout('the removal of taken replies', this.#untilForgotten());
    await this.#withTimeout('client.close()', this.#client.close());
    await this.#checkLeftovers();
  }

  async #checkJob(tracked: Tracked): Promise<void> {
    const { run, where, job } = tracked;
    const replies = (await Promise.all(tracked.outcomes)).filter(isReply).map(describe);
    const distinct = [...new Set(replies)];
    this.#check(distinct.length <= 1, `${run} has several replies: ${distinct.join(' and ')}`);
    const [reply] = distinct;
    const isForced = this.#forced.has(where);
    const mayStop = tracked.isStopped || isForced;
    const isOwn = reply === undefined || reply === run || !reply.startsWith(this.#prefix);
    this.#check(isOwn, `${run} got the reply ${String(reply)} of another`);
    if (reply === 'OPERATION_CANCELED')
      this.#check(mayStop, `${run} was canceled without a request`);
    if (!mayStop && !this.#closed.has(where) && !tracked.isReplaced) {
      const expected = tracked.mode === 'failing' ? 'INSTANCE_FAILED' : run;
      this.#check(reply === expected, `${run} got the reply ${String(reply)}`);
    }
    const info = await this.#context.operator.get(run);
    if (this.#bystanders.has(run)) {
      this.#check(info?.cancel === undefined, `another run with the id ${run} was canceled`);
      return;
    }
    if (info?.cancel !== undefined)
      this.#check(mayStop, `${run} has a cancel that the scenario did not request`);
    const { chunks } = tracked;
    this.#check(
      chunks.every((chunk, n) => chunk === n),
      `${job.id} was read as ${JSON.stringify(chunks)}`,
    );
  }

  async #checkLeftovers(): Promise<void> {
    const { operator, handlers } = this.#context;
    const ids = new Set(this.#jobs.map(({ job }) => job.sessionId));
    await this.#withTimeout('the end of a run', this.#allOver());
    for (const sessionId of ids) {
      if (await this.#wasNeverOpened(sessionId)) continue;
      await this.#withTimeout(
        'the end of a session',
        operator.sessions.shutdown(sessionId, 'forceful'),
      );
      const { items } = await operator.sessions.jobs(sessionId);
      const mayStay = this.#keepsReplies && sessionId === this.#session('subject').id;
      this.#check(mayStay || items.length === 0, `${items.length} jobs of ended sessions are left`);
    }
    this.#check(handlers.running.length === 0, `handlers of ${handlers.running.join()} are left`);
    this.#check(
      this.#connection.listeners === 0,
      `${this.#connection.listeners} listeners are left`,
    );
    await operator.deleteInstanceBulk({}, { all: true });
  }

  /** Whether all jobs of a session were canceled unsent and the client was closed while it retried to open it. */
  async #wasNeverOpened(sessionId: string): Promise<boolean> {
    const jobs = this.#jobs.filter(({ job }) => job.sessionId === sessionId);
    if (!jobs.every(({ isStopped }) => isStopped)) return false;
    try {
      await this.#context.operator.sessions.get(sessionId);
      return false;
    } catch (error) {
      if (isPerdureError(error, 'SESSION_NOT_FOUND')) return true;
      throw error;
    }
  }

  /** Waits until the ended sessions have no jobs left in the store. */
  async #untilForgotten(): Promise<void> {
    for (const where of ['subject', 'control'] as const) {
      if (where === 'subject' && this.#keepsReplies) continue;
      const { id } = this.#session(where);
      await this.#context.operator.sessions.shutdown(id, 'forceful');
      while ((await this.#context.operator.sessions.jobs(id)).items.length > 0) await pass(5);
    }
  }

  async #allOver(): Promise<void> {
    const { operator, handlers } = this.#context;
    for (;;) {
      const { items } = await operator.list({ idPrefix: this.#prefix });
      const isOver = items.every(({ status }) => isTerminal(status));
      if (isOver && handlers.running.length === 0) return;
      await pass(5);
    }
  }

  #force(where: Where): void {
    this.#forced.add(where);
    this.#closed.add(where);
  }

  #session(where: 'subject' | 'control'): Session {
    const session = this.#sessions[where];
    if (session === undefined) throw new Error('The scenario has not begun.');
    return session;
  }

  #check(holds: boolean, violation: string): void {
    if (!holds) this.violations.push(violation);
  }

  async #withTimeout(what: string, promise: Promise<unknown>): Promise<void> {
    const late = Promise.withResolvers<'late'>();
    const timer = setTimeout(() => late.resolve('late'), this.#timeoutMs);
    const first = await Promise.race([promise, late.promise]);
    clearTimeout(timer);
    if (first === 'late') throw new Error(`${what} hangs. ${this.violations.join('; ')}`);
  }
}

/** Reads the stream to its end, or leaves it after the first chunk. */
async function readSome({ job, chunks, mode }: Tracked, leaves: boolean): Promise<void> {
  const stream = job.stream();
  if (leaves && mode !== 'chatty') {
    await stream.return?.();
    return;
  }
  for await (const chunk of stream) {
    chunks.push(chunk);
    if (leaves) break;
  }
}

function isReply({ error }: Outcome): boolean {
  return !withoutReply.some((code) => isPerdureError(error, code as 'TIMEOUT'));
}

function describe({ value, error }: Outcome): string {
  if (error === undefined) return String(value);
  return isPerdureError(error) ? error.code : error.message;
}

async function pass(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
}
