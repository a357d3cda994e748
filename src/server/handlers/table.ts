import type { Handlers } from '../server-context.ts';
import type { Routes } from '../routes/table.ts';
import { deletionHandlers } from './deletion.ts';
import { metricHandlers } from './metrics.ts';
import { flowHandlers } from './flows.ts';
import { instanceHandlers, stoppingHandlers } from './instances.ts';
import { jobHandlers } from './jobs.ts';
import { retentionHandlers } from './retention.ts';
import { scheduleHandlers } from './schedules.ts';
import { sessionHandlers } from './sessions.ts';
import { taskHandlers } from './tasks.ts';

/** What is done for each route; the compiler misses none. */
export const handlers: Handlers<Routes> = {
  ...instanceHandlers,
  ...stoppingHandlers,
  ...deletionHandlers,
  ...retentionHandlers,
  ...taskHandlers,
  ...flowHandlers,
  ...scheduleHandlers,
  ...sessionHandlers,
  ...jobHandlers,
  ...metricHandlers,
};
