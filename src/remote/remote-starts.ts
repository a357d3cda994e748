import { type InstanceAccess, Handle } from '../client/handle.ts';
import { readEvent, readStartOptions, readTarget } from '../client/starting/start-request.ts';
import { TaskHandle } from '../client/starting/task-handle.ts';
import { readRunTaskOptions, readTask } from '../client/starting/task-request.ts';
import { systemClock } from '../model/clock.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { invalid, readFields } from '../model/option-fields.ts';
import { decodePayload, encodePayload, type Payload } from '../model/values/payload.ts';
import { timeOrderedId } from '../model/values/random-id.ts';
import { validateEvent, validateInput } from '../model/values/validate-input.ts';
import type { Request } from './operations.ts';
import { assertEach } from './read-answer.ts';
import type { Transport } from './transport.ts';

type TaskRun = Request<'runTask'>['body'] & { readonly id: string };

interface PreparedTask {
  readonly run: TaskRun;
  readonly bytes: number;
  /** Whether the id was made here: a run with it is ours, also where the answer to its creation was lost. */
  readonly isOwnId: boolean;
}

const maxBatch = 1_000;
const maxBatchBytes = 2_000_000;

/** Starts instances and tasks and raises events: checks what it is given as a local client does, then sends it. */
export class RemoteStarts {
  readonly #transport: Transport;
  readonly #access: InstanceAccess;
  readonly #payloadLimitBytes: number;

  constructor(params: {
    readonly transport: Transport;
    readonly access: InstanceAccess;
    readonly payloadLimitBytes: number;
  }) {
    this.#transport = params.transport;
    this.#access = params.access;
    this.#payloadLimitBytes = params.payloadLimitBytes;
  }

  async start(definition: unknown, input: unknown, options: unknown): Promise<Handle> {
    const { name, version, schema } = readTarget(definition);
    const chosen = readStartOptions(options);
    const what = `Orchestration ${JSON.stringify(name)}`;
    // Refused early, but sent as it was given: what the schema makes of it is made anew wherever the code runs.
    if (schema !== undefined) await validateInput(schema, input, what);
    const payload = this.#encode(input, `The input of ${what}`);
    const startVersion = chosen.version ?? version;
    const body = {
      name,
      // Made here, so that the same start can be made again when its answer was lost.
      id: chosen.id ?? timeOrderedId(systemClock.now()),
      ...(payload !== null && { input: decodePayload(payload) }),
      ...(startVersion !== null && { version: startVersion }),
    };
    const { id } = await this.#transport.call('startInstance', { body }, { repeatable: true });
    return new Handle(id, this.#access);
  }

  async runTask(task: unknown, input: unknown, options: unknown): Promise<TaskHandle> {
    const prepared = await this.#prepare(task, input, options);
    const request = { body: prepared.run };
    const answer = await this.#transport.call('runTask', request, { repeatable: true });
    return this.#toHandle(prepared, answer);
  }

  /** Checks all requests before it sends the first. */
  async runTasks(requests: unknown): Promise<readonly TaskHandle[]> {
    if (!Array.isArray(requests)) throw invalid('The batch', requests, 'an array of requests');
    const prepared: PreparedTask[] = [];
    for (const request of requests as readonly unknown[]) {
      const fields = readFields(request, 'A request', ['task', 'input', 'options'] as const);
      prepared.push(await this.#prepare(fields.task, fields.input, fields.options));
    }
    const handles: TaskHandle[] = [];
    for (const batch of inBatches(prepared)) {
      const body = { requests: batch.map(({ run }) => run) };
      const { runs } = await this.#transport.call('runTasks', { body }, { repeatable: true });
      assertEach('runTasks', runs, batch);
      for (const [index, one] of batch.entries()) handles.push(this.#toHandle(one, runs[index]));
    }
    return handles;
  }

  /** Not made again when its answer was lost: the event would be raised twice. */
  async raise(id: unknown, event: unknown, value: unknown): Promise<void> {
    const instanceId = checkInstanceId(id);
    const { name, schema } = readEvent(event);
    validateEvent(schema, value, name);
    const payload = this.#encode(value, `The payload of event ${JSON.stringify(name)}`);
    const body = { name, ...(payload !== null && { payload: decodePayload(payload) }) };
    await this.#transport.call('raiseEvent', { params: { id: instanceId }, body });
  }

  #encode(value: unknown, what: string): Payload | null {
    return encodePayload(value, what, this.#payloadLimitBytes);
  }

  async #prepare(task: unknown, input: unknown, options: unknown): Promise<PreparedTask> {
    const target = readTask(task);
    const { id, delayMs, expiresInMs, headers, ...chosen } = readRunTaskOptions(options, target);
    const what = `Task ${JSON.stringify(target.name)}`;
    if (target.schema !== undefined) await validateInput(target.schema, input, what);
    const payload = this.#encode(input, `The input of ${what}`);
    const run: TaskRun = {
      task: target.name,
      id: id ?? timeOrderedId(systemClock.now()),
      ...(payload !== null && { input: decodePayload(payload) }),
      ...chosen,
      delay: delayMs,
      expiresIn: expiresInMs,
      ...(headers !== undefined && { headers: { ...headers } }),
      onFail: target.defaults?.onFail === true,
    };
    return { run, bytes: payload?.length ?? 0, isOwnId: id === undefined };
  }

  #toHandle(
    { run, isOwnId }: PreparedTask,
    answer: { readonly id: string; readonly created: boolean } | undefined,
  ): TaskHandle {
    if (answer === undefined) throw new Error('The server answered nothing for a task.');
    const created = answer.created || (isOwnId && answer.id === run.id);
    return new TaskHandle(answer.id, created, this.#access);
  }
}

function* inBatches(tasks: readonly PreparedTask[]): Iterable<readonly PreparedTask[]> {
  let batch: PreparedTask[] = [];
  let bytes = 0;
  for (const task of tasks) {
    const isFull = batch.length === maxBatch || bytes + task.bytes > maxBatchBytes;
    if (isFull && batch.length > 0) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(task);
    bytes += task.bytes;
  }
  if (batch.length > 0) yield batch;
}
