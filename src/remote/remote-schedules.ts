import type { ScheduleInfo } from '../client/managing/schedule-info.ts';
import type {
  FlowSchedule,
  OrchestrationSchedule,
  TaskSchedule,
} from '../client/managing/schedule-request.ts';
import { readWork } from '../client/managing/scheduled-work.ts';
import type { SchedulePage, Schedules } from '../client/managing/schedules.ts';
import { readStartOptions, readTarget } from '../client/starting/start-request.ts';
import { readRunTaskOptions, readTask, readTime } from '../client/starting/task-request.ts';
import { isPerdureError } from '../model/failures/errors.ts';
import { checkName } from '../model/values/names.ts';
import { readFields } from '../model/option-fields.ts';
import { decodePayload, encodePayload } from '../model/values/payload.ts';
import { validateInput } from '../model/values/validate-input.ts';
import type { Request } from './operations.ts';
import type { Transport } from './transport.ts';

type Body = Request<'putSchedule'>['body'];
type Fields = Readonly<Partial<Record<(typeof fieldNames)[number], unknown>>>;

const timingNames = ['cron', 'timeZone', 'every', 'startAt', 'endAt', 'catchUp'] as const;
const fieldNames = [...timingNames, 'task', 'orchestration', 'flow', 'input', 'options'] as const;
const again = { repeatable: true };

/** Schedules of a store that a server has open. */
export class RemoteSchedules implements Pick<Schedules, keyof Schedules> {
  readonly #transport: Transport;
  readonly #payloadLimitBytes: number;
  readonly #assertOpen: () => void;

  constructor(params: {
    readonly transport: Transport;
    readonly payloadLimitBytes: number;
    readonly assertOpen: () => void;
  }) {
    this.#transport = params.transport;
    this.#payloadLimitBytes = params.payloadLimitBytes;
    this.#assertOpen = params.assertOpen;
  }

  put<Input>(name: string, schedule: TaskSchedule<Input>): Promise<ScheduleInfo>;
  put<Input>(name: string, schedule: OrchestrationSchedule<Input>): Promise<ScheduleInfo>;
  put<Input>(name: string, schedule: FlowSchedule<Input>): Promise<ScheduleInfo>;
  async put(name: string, schedule: unknown): Promise<ScheduleInfo> {
    const params = this.#named(name);
    const body = await this.#read(readFields(schedule, 'The schedule', fieldNames));
    return this.#transport.call('putSchedule', { params, body }, again);
  }

  async pause(name: string): Promise<void> {
    await this.#transport.call('pauseSchedule', { params: this.#named(name), body: {} }, again);
  }

  async resume(name: string): Promise<void> {
    await this.#transport.call('resumeSchedule', { params: this.#named(name), body: {} }, again);
  }

  /** Not made again when its answer was lost: somebody may have put another one meanwhile. */
  async delete(name: string): Promise<boolean> {
    const request = { params: this.#named(name), body: {} };
    return (await this.#transport.call('deleteSchedule', request)).deleted;
  }

  async get(name: string): Promise<ScheduleInfo | undefined> {
    try {
      return await this.#transport.call('getSchedule', { params: this.#named(name) });
    } catch (error) {
      if (isPerdureError(error, 'SCHEDULE_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  async list(page?: {
    readonly limit?: number | undefined;
    readonly after?: string | undefined;
  }): Promise<SchedulePage> {
    this.#assertOpen();
    const query = readFields(page, 'page', ['limit', 'after'] as const);
    return this.#transport.call('listSchedules', {
      query: query as Request<'listSchedules'>['query'],
    });
  }

  async nextRuns(name: string, count?: number): Promise<readonly Date[]> {
    const request = { params: this.#named(name), query: { count } };
    const { runs } = await this.#transport.call('nextRuns', request);
    return runs.map((at) => new Date(at));
  }

  #named(name: unknown): { readonly name: string } {
    this.#assertOpen();
    return { name: checkName(name, 'Schedule name') };
  }

  async #read(fields: Fields): Promise<Body> {
    const work = readWork(fields);
    const timing = {
      ...Object.fromEntries(timingNames.map((key) => [key, fields[key]])),
      startAt: readTime('startAt', fields.startAt),
      endAt: readTime('endAt', fields.endAt),
    };
    const target =
      work.kind === 'task'
        ? await this.#readTask(work, fields.options)
        : await this.#readOrchestration(work, fields.options);
    // What is wrong with the timing is told by the server, in the words of a local client.
    return { ...timing, ...target };
  }

  async #readTask(work: { readonly task: unknown; readonly input: unknown }, options: unknown) {
    const target = readTask(work.task);
    readFields(options, 'options', ['priority', 'expiresIn', 'dedupeKey', 'headers'] as const);
    const { priority, expiresInMs, dedupeKey, headers } = readRunTaskOptions(options, target);
    const what = `Task ${JSON.stringify(target.name)}`;
    if (target.schema !== undefined) await validateInput(target.schema, work.input, what);
    return {
      task: target.name,
      input: this.#plain(work.input, `The input of ${what}`),
      onFail: target.defaults?.onFail === true,
      options: { priority, expiresIn: expiresInMs, dedupeKey, headers },
    };
  }

  async #readOrchestration(
    work: { readonly orchestration: unknown; readonly input: unknown },
    options: unknown,
  ) {
    const target = readTarget(work.orchestration);
    readFields(options, 'options', ['version'] as const);
    const { version } = readStartOptions(options);
    const what = `Orchestration ${JSON.stringify(target.name)}`;
    if (target.schema !== undefined) await validateInput(target.schema, work.input, what);
    return {
      orchestration: target.name,
      input: this.#plain(work.input, `The input of ${what}`),
      options: { version: version ?? target.version ?? undefined },
    };
  }

  #plain(input: unknown, what: string): unknown {
    return decodePayload(encodePayload(input, what, this.#payloadLimitBytes));
  }
}
