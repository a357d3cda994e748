import { deletionRoutes } from './deletion.ts';
import { metricRoutes } from './metrics.ts';
import { flowRoutes } from './flows.ts';
import { instanceRoutes, stoppingRoutes } from './instances.ts';
import { jobRoutes } from './jobs.ts';
import { retentionRoutes } from './retention.ts';
import type { RouteShape } from './route.ts';
import { scheduleRoutes } from './schedules.ts';
import { sessionRoutes } from './sessions.ts';
import { taskRoutes } from './tasks.ts';

/** Everything that can be asked of the server: what is not here is not served. */
export const routes = {
  ...instanceRoutes,
  ...stoppingRoutes,
  ...deletionRoutes,
  ...retentionRoutes,
  ...taskRoutes,
  ...flowRoutes,
  ...scheduleRoutes,
  ...sessionRoutes,
  ...jobRoutes,
  ...metricRoutes,
} satisfies Readonly<Record<string, RouteShape>>;

/** The table of routes as a type, for whoever calls them. */
export type Routes = typeof routes;

/** The name of a route. */
export type RouteName = keyof Routes;
