import { lazy, type PageComponent } from './lazy.tsx';
import type { IconName } from '../components/icon.tsx';

/** A page of the dashboard. */
export interface Page {
  /** The first segment of its address; the overview has none. */
  readonly path: string;
  readonly title: string;
  readonly icon: IconName;
  /** The second key of its shortcut, after `g`. */
  readonly key: string;
  readonly component: PageComponent;
}

/** All pages, in the order of the side bar. */
export const pages: readonly Page[] = [
  {
    path: '',
    title: 'Overview',
    icon: 'overview',
    key: 'o',
    component: lazy(() => import('../pages/overview/overview.tsx'), 'Overview'),
  },
  {
    path: 'instances',
    title: 'Instances',
    icon: 'instances',
    key: 'i',
    component: lazy(() => import('../pages/instances/instances.tsx'), 'Instances'),
  },
  {
    path: 'flows',
    title: 'Flows',
    icon: 'flow',
    key: 'f',
    component: lazy(() => import('../pages/flows/flows.tsx'), 'Flows'),
  },
  {
    path: 'queues',
    title: 'Tasks and queues',
    icon: 'queue',
    key: 'q',
    component: lazy(() => import('../pages/queues/queues.tsx'), 'Queues'),
  },
  {
    path: 'workers',
    title: 'Workers',
    icon: 'worker',
    key: 'w',
    component: lazy(() => import('../pages/workers/workers.tsx'), 'Workers'),
  },
  {
    path: 'schedules',
    title: 'Schedules',
    icon: 'clock',
    key: 's',
    component: lazy(() => import('../pages/schedules/schedules.tsx'), 'Schedules'),
  },
  {
    path: 'sessions',
    title: 'Sessions and jobs',
    icon: 'session',
    key: 'j',
    component: lazy(() => import('../pages/sessions/sessions.tsx'), 'Sessions'),
  },
  {
    path: 'retention',
    title: 'Retention and audit',
    icon: 'archive',
    key: 'r',
    component: lazy(() => import('../pages/retention/retention.tsx'), 'Retention'),
  },
  {
    path: 'metrics',
    title: 'Metrics',
    icon: 'chart',
    key: 'm',
    component: lazy(() => import('../pages/metrics/metrics.tsx'), 'Metrics'),
  },
  {
    path: 'settings',
    title: 'Settings',
    icon: 'settings',
    key: ',',
    component: lazy(() => import('../pages/settings/settings.tsx'), 'Settings'),
  },
];

/** The page of one instance: `/instances/{id}/{tab}`. */
const instancePage: PageComponent = lazy(
  () => import('../pages/instance/instance.tsx'),
  'Instance',
);

/** The page of an address. */
export function pageOf([first = '', ...rest]: readonly string[]): PageComponent | undefined {
  if (first === 'instances' && rest.length > 0) return instancePage;
  return pages.find(({ path }) => path === first)?.component;
}
