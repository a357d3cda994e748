import type { ScheduledWork, ScheduleRequest } from '../client/managing/schedule-request.ts';
import type { ScheduleBackend, ScheduleInfo, SchedulePage } from '../client/managing/schedules.ts';
import { isPerdureError } from '../model/failures/errors.ts';
import { decodePayload } from '../model/values/payload.ts';
import type { Request } from './operations.ts';
import type { Transport } from './transport.ts';

const repeatable = { repeatable: true };

/** Schedules in a store that is open in a server. */
export class HttpSchedules implements ScheduleBackend {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  put(name: string, request: ScheduleRequest): Promise<ScheduleInfo> {
    const body = toWireSchedule(request);
    return this.#transport.call('putSchedule', { params: { name }, body }, repeatable);
  }

  async pause(name: string): Promise<void> {
    await this.#transport.call('pauseSchedule', { params: { name }, body: {} }, repeatable);
  }

  async resume(name: string): Promise<void> {
    await this.#transport.call('resumeSchedule', { params: { name }, body: {} }, repeatable);
  }

  /** Not repeatable: another client may have put a new schedule with this name. */
  async delete(name: string): Promise<boolean> {
    return (await this.#transport.call('deleteSchedule', { params: { name }, body: {} })).deleted;
  }

  async get(name: string): Promise<ScheduleInfo | undefined> {
    try {
      return await this.#transport.call('getSchedule', { params: { name } });
    } catch (error) {
      if (isPerdureError(error, 'SCHEDULE_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  list(query: Parameters<ScheduleBackend['list']>[0]): Promise<SchedulePage> {
    return this.#transport.call('listSchedules', { query });
  }

  async nextRuns(name: string, count: number): Promise<readonly Date[]> {
    const request = { params: { name }, query: { count } };
    const { runs } = await this.#transport.call('nextRuns', request);
    return runs.map((at) => new Date(at));
  }
}

function toWireSchedule(request: ScheduleRequest): Request<'putSchedule'>['body'] {
  const { timing, startAt, endAt, catchUp, work } = request;
  return {
    ...(timing.kind === 'cron'
      ? { cron: timing.expression, timeZone: timing.timeZone }
      : { every: timing.everyMs }),
    startAt,
    endAt,
    catchUp,
    ...toWireWork(work),
  };
}

function toWireWork(work: ScheduledWork) {
  const input = decodePayload(work.payload);
  if (work.kind === 'orchestration') {
    return { orchestration: work.name, input, options: { version: work.version ?? undefined } };
  }
  const { name, priority, expiresInMs, dedupeKey, headers, onFail } = work;
  const options = { priority, expiresIn: expiresInMs, dedupeKey };
  const sent = headers === undefined ? options : { ...options, headers: { ...headers } };
  return { task: name, input, onFail, options: sent };
}
