import './require-node.ts';

// Dashboard
export { dashboard } from './dashboard/server/dashboard.ts';
export type { DashboardOptions, DashboardSettings } from './dashboard/server/options.ts';
export type { DashboardLink, SessionState } from './dashboard/server/session-state.ts';
