import { PerdureError } from '../../model/failures/errors.ts';
import { withAttempt } from '../../model/values/start-attempt.ts';
import { actorOf } from '../access/tokens.ts';
import type { Handlers } from '../server-context.ts';
import type { scheduleRoutes } from '../routes/schedules.ts';
import { taskWith } from './tasks.ts';

export const scheduleHandlers: Handlers<typeof scheduleRoutes> = {
  listSchedules({ query }, { client }) {
    return client.schedules.list(query);
  },
  async getSchedule({ params }, { client }) {
    const schedule = await client.schedules.get(params.name);
    if (schedule !== undefined) return schedule;
    throw scheduleNotFound(params.name);
  },
  putSchedule({ params, body: { actor, reason, ...body }, caller }, { client }) {
    const audit = { actor: actorOf(caller, actor), reason };
    if (!('task' in body)) return client.schedules.put(params.name, body, audit);
    const { task, onFail, ...rest } = body;
    return client.schedules.put(params.name, { ...rest, task: taskWith(task, onFail) }, audit);
  },
  async pauseSchedule({ params, body, caller }, { client }) {
    await client.schedules.pause(params.name, { ...body, actor: actorOf(caller, body.actor) });
    return {};
  },
  async resumeSchedule({ params, body, caller }, { client }) {
    await client.schedules.resume(params.name, { ...body, actor: actorOf(caller, body.actor) });
    return {};
  },
  async deleteSchedule({ params, body, caller }, { client }) {
    const audit = { ...body, actor: actorOf(caller, body.actor) };
    return { deleted: await client.schedules.delete(params.name, audit) };
  },
  async nextRuns({ params, query }, { client }) {
    const ticks = await client.schedules.next(params.name, query);
    return { runs: ticks.map(({ tickAt }) => tickAt), ticks: [...ticks] };
  },
  async listScheduleRuns({ params, query }, { client }) {
    return { items: [...(await client.schedules.runs(params.name, query))] };
  },
  triggerSchedule({ params, body, caller }, { client }) {
    const actor = actorOf(caller, body.actor);
    return client.schedules.trigger(params.name, withAttempt({ ...body, actor }));
  },
  backfillSchedule({ params, body, caller }, { client }) {
    const actor = actorOf(caller, body.actor);
    return client.schedules.backfill(params.name, withAttempt({ ...body, actor }));
  },
};

export function scheduleNotFound(name: string): PerdureError {
  return new PerdureError('SCHEDULE_NOT_FOUND', `Schedule ${JSON.stringify(name)} does not exist.`);
}
