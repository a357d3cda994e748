import type { Handlers } from '../server-context.ts';
import type { Routes } from '../routes/table.ts';
import { deletionHandlers, retentionHandlers } from './deletion.ts';
import { bulkHandlers } from './bulk.ts';
import { metricHandlers } from './metrics.ts';
import { flowHandlers } from './flows.ts';
import { instanceHandlers } from './instances.ts';
import { jobHandlers } from './jobs.ts';
import { limitHandlers } from './limits.ts';
import { pauseHandlers } from './pauses.ts';
import { scheduleHandlers } from './schedules.ts';
import { sessionHandlers } from './sessions.ts';
import { taskHandlers } from './tasks.ts';
import { seriesHandlers } from './series.ts';
import { workerHandlers } from './workers.ts';
import { updateHandlers } from './updates.ts';
import { stateHandlers } from './state.ts';
import { viewHandlers } from './views.ts';

/** The handler of every route. A missing one does not compile. */
export const handlers: Handlers<Routes> = {
  ...instanceHandlers,
  ...bulkHandlers,
  ...pauseHandlers,
  ...limitHandlers,
  ...updateHandlers,
  ...deletionHandlers,
  ...retentionHandlers,
  ...taskHandlers,
  ...flowHandlers,
  ...scheduleHandlers,
  ...sessionHandlers,
  ...jobHandlers,
  ...workerHandlers,
  ...seriesHandlers,
  ...metricHandlers,
  ...viewHandlers,
  ...stateHandlers,
};
