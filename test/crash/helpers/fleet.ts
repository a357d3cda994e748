import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { OpenClaims } from '../oracles/ledger.ts';
import type { Command, ProgramOptions } from '../programs/program-io.ts';

type Program = 'worker' | 'client' | 'operator';

/** A real process that runs one of the programs. */
export class Member {
  readonly name: string;
  readonly ledger: string;
  readonly openClaims: OpenClaims;
  readonly ready: Promise<void>;
  readonly exited: Promise<void>;
  readonly process: ChildProcess;
  isReady = false;
  hasExited = false;
  errors = '';

  constructor(program: Program, options: ProgramOptions, env: NodeJS.ProcessEnv) {
    this.name = options.name;
    this.ledger = options.ledger;
    this.openClaims = new OpenClaims(options.ledger);
    const path = join(import.meta.dirname, '..', 'programs', `${program}-program.ts`);
    this.process = spawn(process.execPath, [path, JSON.stringify(options)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env,
    });
    this.process.stderr?.on('data', (chunk: Buffer) => (this.errors += chunk.toString()));
    this.exited = this.#exit();
    this.ready = this.#start();
    this.ready.catch(() => undefined);
  }

  tell(command: Command): void {
    if (this.process.connected) this.process.send(command);
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.exited;
  }

  async #exit(): Promise<void> {
    await once(this.process, 'exit');
    this.hasExited = true;
  }

  async #start(): Promise<void> {
    // Its only message reports that it is ready.
    await Promise.race([once(this.process, 'message'), this.exited]);
    if (this.hasExited) throw new Error(`${this.name} exited early: ${this.errors}`);
    this.isReady = true;
  }
}

type SharedOptions = Pick<
  ProgramOptions,
  'store' | 'leaseMs' | 'fencing' | 'outages' | 'operators'
>;

/** The processes of a loop: one client, and workers that are replaced when they are killed. */
export class Fleet {
  readonly #folder: string;
  readonly #options: SharedOptions;
  readonly #workers = new Set<Member>();
  readonly #unexpected: string[] = [];
  readonly members: Member[] = [];
  #ending = false;

  constructor(folder: string, options: SharedOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  /** The workers that are running. */
  get workers(): readonly Member[] {
    return [...this.#workers];
  }

  /** Unexpected exits, with the last output of the process. */
  get unexpectedExits(): readonly string[] {
    return this.#unexpected;
  }

  startClient(inFlight: number): Member {
    return this.#start('client', `client${this.members.length}`, inFlight);
  }

  startOperator(actions: number): Member {
    return this.#start('operator', `operator${this.members.length}`, actions);
  }

  startWorker(): Member {
    const worker = this.#start('worker', `worker${this.members.length}`, this.#ending ? 0 : 4);
    this.#workers.add(worker);
    return worker;
  }

  /** Kills a worker and starts a replacement. */
  async replace(worker: Member): Promise<void> {
    this.#workers.delete(worker);
    await worker.kill();
    this.startWorker();
  }

  /** Tells the workers to start no more instances of their own. */
  startNoMore(): void {
    this.#ending = true;
    for (const worker of this.#workers) worker.tell('startNoMore');
  }

  /** Stops the workers gracefully. */
  async stop(): Promise<void> {
    const workers = [...this.#workers];
    await Promise.all(workers.map(({ ready }) => ready));
    this.#workers.clear();
    for (const worker of workers) worker.tell('stop');
    await Promise.all(workers.map(({ exited }) => exited));
    for (const worker of workers) this.#checkExit(worker);
  }

  /** Kills every remaining process. */
  async killAll(): Promise<void> {
    this.#workers.clear();
    const living = this.members.filter(({ hasExited }) => !hasExited);
    await Promise.all(living.map((member) => member.kill()));
  }

  /** Fills the compile cache for later processes: a process writes its cache at exit, and most are killed. */
  async compile(): Promise<void> {
    const program = join(import.meta.dirname, '..', 'programs', 'compile-program.ts');
    const child = spawn(process.execPath, [program], { stdio: 'ignore', env: this.#env });
    await once(child, 'exit');
  }

  get #env(): NodeJS.ProcessEnv {
    const cache = join(this.#folder, 'compile-cache');
    return { NODE_COMPILE_CACHE: cache, ...process.env, NODE_NO_WARNINGS: '1' };
  }

  #start(program: Program, name: string, inFlight: number): Member {
    const ledger = join(this.#folder, `${name}.ledger`);
    const member = new Member(program, { ...this.#options, ledger, name, inFlight }, this.#env);
    this.members.push(member);
    member.process.on('exit', () => {
      if (this.#workers.has(member)) this.#checkExit(member);
    });
    return member;
  }

  #checkExit({ name, process: { exitCode, signalCode }, errors }: Member): void {
    if (exitCode === 0) return;
    this.#unexpected.push(`${name} exited with ${exitCode ?? signalCode}: ${errors.slice(-2_000)}`);
  }
}
