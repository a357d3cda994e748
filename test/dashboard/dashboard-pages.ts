import { seededIds } from './seed/seed-store.ts';

/** A page of the dashboard with the seeded store. */
export interface SeededPage {
  /** The name of its screenshots. */
  readonly name: string;
  /** Relative to the base path. */
  readonly path: string;
  /** A text that appears once the page has its data. */
  readonly text: string;
}

const instance = (id: string, tab?: string): string =>
  `instances/${encodeURIComponent(id)}${tab === undefined ? '' : `/${tab}`}`;

/** Every page and tab of the dashboard, with an instance of each state. */
export const seededPages: readonly SeededPage[] = [
  { name: 'overview', path: '', text: 'instances blocked' },
  { name: 'instances', path: 'instances', text: seededIds.running },
  { name: 'instance-retrying', path: instance(seededIds.retrying), text: 'chargeCard' },
  { name: 'instance-failed', path: instance(seededIds.failed), text: 'Card declined' },
  { name: 'instance-canceling', path: instance(seededIds.canceling), text: 'refundCard' },
  { name: 'instance-blocked', path: instance(seededIds.blocked), text: 'applyVoucher' },
  { name: 'instance-agent', path: instance(seededIds.longHistory), text: 'callModel' },
  { name: 'history', path: instance(seededIds.retrying, 'history'), text: 'activityScheduled' },
  { name: 'tree', path: instance(seededIds.retrying, 'tree'), text: 'askCarrier' },
  { name: 'payloads', path: instance(seededIds.retrying, 'payloads'), text: 'card_flaky' },
  { name: 'state', path: instance(seededIds.retrying, 'state'), text: 'charging' },
  { name: 'stream', path: instance(seededIds.longHistory, 'stream'), text: 'Reading ticket' },
  {
    name: 'executions',
    path: instance(seededIds.waitsForTimer, 'executions'),
    text: 'Continued as new',
  },
  { name: 'raw', path: instance(seededIds.retrying, 'raw'), text: 'fulfilOrder' },
  { name: 'flow-run', path: instance(seededIds.flow), text: 'resizeImages' },
  { name: 'flow-failed', path: instance(seededIds.failedFlow), text: 'loadPrices' },
  { name: 'flows', path: 'flows', text: 'importCatalogue' },
  { name: 'queues', path: 'queues', text: 'sendFax' },
  { name: 'workers', path: 'workers', text: 'worker-eu-7' },
  { name: 'schedules', path: 'schedules', text: 'partner-feed' },
  { name: 'sessions', path: 'sessions', text: 'report screen of ada' },
  { name: 'retention', path: 'retention', text: 'campaign withdrawn' },
  { name: 'metrics', path: 'metrics', text: 'Schedule to start' },
  { name: 'settings', path: 'settings', text: 'Time zone' },
];
