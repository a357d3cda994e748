import type { Clock } from '../../model/clock.ts';
import type { TaskRef } from '../../model/definition.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { randomToken, timeOrderedId } from '../../model/values/random-id.ts';
import { encodeTaskOptions } from '../../model/work-item-options.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { CreateTaskResult, NewTask } from '../../providers/contract/tasks.ts';
import type { Births } from './recent-starts.ts';
import { encodeInput } from './encode-input.ts';
import type { InstanceAccess } from '../handle.ts';
import { taskAlreadyExists } from '../waiting/instance-errors.ts';
import { TaskHandle } from './task-handle.ts';
import { readRunTaskOptions, readTask, toTaskTimes, type RunTaskOptions } from './task-request.ts';

// NoInfer: the definition alone decides the type, or a wrong argument would widen it instead of being refused.

/** The arguments of `runTask` after the definition: the input may be left out where `undefined` is one. */
export type RunTaskArguments<Input> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: RunTaskOptions]
  : [input: NoInfer<Input>, options?: RunTaskOptions];

/** One request of a batch. */
export type TaskRequest<Task extends TaskRef | string = TaskRef | string> = {
  readonly task: Task;
  readonly options?: RunTaskOptions | undefined;
} & InputField<Task extends TaskRef<infer Input> ? Input : unknown>;

type InputField<Input> = undefined extends Input
  ? { readonly input?: Input }
  : { readonly input: Input };

/** The handles of a batch, in the order of its requests. */
export type TaskHandles<Tasks extends readonly (TaskRef | string)[]> = {
  readonly [Index in keyof Tasks]: TaskHandle<
    Tasks[Index] extends TaskRef<infer _Input, infer Output> ? Output : unknown
  >;
};

const maxBatch = 1_000;

/** Creates task runs. */
export class TaskRuns {
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #payloadLimitBytes: number;
  readonly #access: InstanceAccess;
  readonly #births: Births;

  constructor(params: {
    readonly provider: Provider;
    readonly clock: Clock;
    readonly payloadLimitBytes: number;
    readonly access: InstanceAccess;
    readonly births: Births;
  }) {
    this.#provider = params.provider;
    this.#clock = params.clock;
    this.#payloadLimitBytes = params.payloadLimitBytes;
    this.#access = params.access;
    this.#births = params.births;
  }

  async run(task: unknown, input: unknown, options: unknown): Promise<TaskHandle> {
    const prepared = await this.#prepare(task, input, options);
    // Whoever waits at once need not read first: the end of a run that is born here is heard.
    const birth = this.#births.announce(prepared.instanceId, prepared.incarnation);
    let result: CreateTaskResult | undefined;
    try {
      [result] = await this.#provider.createTasks([prepared]);
    } finally {
      if (result?.kind === 'created') this.#births.confirm(birth);
      else this.#births.withdraw(birth);
    }
    return this.#toHandle(prepared, result);
  }

  /** Checks all requests before it creates the first run. */
  async runAll(requests: unknown): Promise<readonly TaskHandle[]> {
    if (!Array.isArray(requests)) throw invalid('The batch', requests, 'an array of requests');
    const prepared: NewTask[] = [];
    for (const request of requests as readonly unknown[]) {
      const fields = readFields(request, 'A request', ['task', 'input', 'options'] as const);
      prepared.push(await this.#prepare(fields.task, fields.input, fields.options));
    }
    const results: CreateTaskResult[] = [];
    for (let start = 0; start < prepared.length; start += maxBatch) {
      results.push(...(await this.#provider.createTasks(prepared.slice(start, start + maxBatch))));
    }
    return prepared.map((one, index) => this.#toHandle(one, results[index]));
  }

  async #prepare(task: unknown, input: unknown, options: unknown): Promise<NewTask> {
    const target = readTask(task);
    const chosen = readRunTaskOptions(options, target);
    const payload = await encodeInput(input, {
      what: `Task ${JSON.stringify(target.name)}`,
      schema: target.schema,
      limitBytes: this.#payloadLimitBytes,
    });
    const nowMs = this.#clock.now();
    const stored = encodeTaskOptions(chosen.headers);
    return {
      instanceId: chosen.id ?? timeOrderedId(nowMs),
      incarnation: randomToken(),
      name: target.name,
      inputHash: inputHash(payload),
      payload,
      options: stored,
      priority: chosen.priority,
      ...toTaskTimes(chosen, nowMs),
      ...(chosen.dedupeKey !== undefined && { dedupeKey: chosen.dedupeKey }),
      ...(target.defaults?.onFail === true && { onFail: { options: stored } }),
    };
  }

  #toHandle(task: NewTask, result: CreateTaskResult | undefined): TaskHandle {
    switch (result?.kind) {
      case 'created':
        return new TaskHandle(task.instanceId, true, this.#access);
      case 'exists':
        return new TaskHandle(task.instanceId, false, this.#access);
      case 'active':
        return new TaskHandle(result.instanceId, false, this.#access);
      case 'conflict':
        throw taskAlreadyExists(task, result.name);
      case 'refused':
        throw result.error;
      case undefined:
        throw new Error('createTasks answered nothing.');
    }
  }
}
