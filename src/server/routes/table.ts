import { deletionRoutes, retentionRoutes } from './deletion.ts';
import { bulkRoutes } from './bulk.ts';
import { metricRoutes } from './metrics.ts';
import { flowRoutes } from './flows.ts';
import { instanceRoutes } from './instances.ts';
import { jobRoutes } from './jobs.ts';
import { limitRoutes } from './limits.ts';
import { pauseRoutes } from './pauses.ts';
import type { RouteShape } from './route.ts';
import { scheduleRoutes } from './schedules.ts';
import { sessionRoutes } from './sessions.ts';
import { taskRoutes } from './tasks.ts';
import { seriesRoutes } from './series.ts';
import { workerRoutes } from './workers.ts';
import { updateRoutes } from './updates.ts';
import { stateRoutes } from './state.ts';
import { viewRoutes } from './views.ts';

/** All routes of the server. */
export const routes = {
  ...instanceRoutes,
  ...bulkRoutes,
  ...pauseRoutes,
  ...limitRoutes,
  ...updateRoutes,
  ...deletionRoutes,
  ...retentionRoutes,
  ...taskRoutes,
  ...flowRoutes,
  ...scheduleRoutes,
  ...sessionRoutes,
  ...jobRoutes,
  ...workerRoutes,
  ...seriesRoutes,
  ...metricRoutes,
  ...viewRoutes,
  ...stateRoutes,
} satisfies Readonly<Record<string, RouteShape>>;

export type Routes = typeof routes;

/** The name of a route. */
export type RouteName = keyof Routes;
