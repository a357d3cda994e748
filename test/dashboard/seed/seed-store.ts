import { setTimeout as pause } from 'node:timers/promises';
import { signalFlow } from '../../../src/flows.ts';
import {
  Perdure,
  silentLogger,
  type Client,
  type RetentionPolicy,
  type StartWorkerOptions,
} from '../../../src/index.ts';
import { writeRetention } from '../../../src/management/retention-records.ts';
import type { Clock } from '../../../src/model/clock.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { agentDefinitions, taskDefinitions } from './agents.ts';
import { otherWorker, withFixedHosts, writeSeries } from './background.ts';
import { approved, catalogueFlow } from './catalogue.ts';
import { delivered, orderDefinitions, paymentConfirmed, type Order } from './orders.ts';
import { SeedClock } from './seed-clock.ts';
import { Stage } from './stage.ts';

/** A store with one instance of every state, and workers that run in this process. */
export interface Seed {
  readonly perdure: Perdure;
  /** The clock of the store. It runs at normal speed until it is stopped. */
  readonly clock: SeedClock;
  readonly ids: typeof seededIds;
  /** Ends all handlers and closes the store. */
  close(): Promise<void>;
}

/** The instances that tests and screenshots open. */
export const seededIds = {
  completed: 'order-48102',
  failed: 'order-48188',
  failedRefund: 'refund-47990',
  retrying: 'order-48184',
  running: 'order-48213',
  waitsForEvent: 'order-48203',
  waitsForTimer: 'subscription-acme',
  waitsForChild: 'order-48209',
  waitsForDelivery: 'order-48192',
  canceling: 'order-48190',
  canceled: 'order-48150',
  terminated: 'order-48151',
  blocked: 'order-48201',
  paused: 'order-48197',
  leaked: 'scan-upload-771',
  noWorker: 'order-48206',
  longHistory: 'agent-ticket-9120',
  agent: 'agent-ticket-9133',
  flow: 'catalogue-2026-11-16',
  failedFlow: 'catalogue-2026-11-15',
  completedFlow: 'catalogue-2026-11-14',
} as const;

const policies: readonly RetentionPolicy[] = [
  { statuses: 'completed', names: ['send*', 'render*'], keepFor: '7d' },
  { statuses: ['failed', 'terminated'], keepFor: '90d' },
  { keepFor: '30d' },
  { names: 'subscription', keepExecutions: 12 },
];

const minute = 60_000;
const hour = 60 * minute;

// About the time that `lastMinutes` takes.
const lastMinutesMs = 1_500;

/**
 * Fills an empty store, by running real definitions: five hours of orders, payments, refunds, agents, imports, tasks and
 * schedules until `now` (default: the time at which the seed is complete).
 */
export async function seedStore(
  open: (options: { readonly clock: Clock }) => Promise<Provider>,
  options: { readonly now?: number } = {},
): Promise<Seed> {
  const end = options.now ?? Date.now();
  const clock = new SeedClock(end - 5.5 * hour);
  const provider = withFixedHosts(await open({ clock }));
  const perdure = await Perdure.open(provider, { logger: silentLogger, clock });
  const seed = new Seeding({ perdure, provider, clock, end });
  try {
    await seed.past();
    await seed.lastMinutes(options.now ?? Date.now() + lastMinutesMs);
    clock.moveTo(options.now ?? Date.now());
    await seed.present();
  } catch (error) {
    await seed.close();
    throw error;
  }
  return { perdure, clock, ids: seededIds, close: () => seed.close() };
}

interface SeedingParams {
  readonly perdure: Perdure;
  readonly provider: Provider;
  readonly clock: SeedClock;
  /** The time that the seed is for. */
  readonly end: number;
}

class Seeding {
  #end: number;
  readonly #params: SeedingParams;
  readonly #client: Client;
  readonly #stage: Stage;
  readonly #orders: ReturnType<typeof orderDefinitions>;
  readonly #agents: ReturnType<typeof agentDefinitions>;
  readonly #tasks: ReturnType<typeof taskDefinitions>;
  readonly #catalogue: ReturnType<typeof catalogueFlow>;

  constructor(params: SeedingParams) {
    this.#params = params;
    this.#end = params.end;
    this.#client = params.perdure.client;
    this.#stage = new Stage(params.clock);
    this.#orders = orderDefinitions(this.#stage, '9f2c1ab');
    this.#agents = agentDefinitions(this.#stage);
    this.#tasks = taskDefinitions(this.#stage);
    this.#catalogue = catalogueFlow(this.#stage);
  }

  async close(): Promise<void> {
    this.#stage.release();
    await this.#params.perdure.close();
  }

  /** What happened before the last three minutes. */
  async past(): Promise<void> {
    const client = this.#client;
    const { fulfilOrder, refundOrder } = this.#orders;
    await this.#putSchedules();
    await this.#during(5.3 * hour, '71de0c4', async () => {
      await this.#toTheEnd(48_101, 48_104);
      await this.#failed(48_110, 'card_expired');
      for (const number of [48_201, 48_166, 48_031]) {
        await this.#toDelivery(order(number, { voucher: 'SPRING5' }));
      }
      const refund = await client.start(refundOrder, order(47_990), {
        id: seededIds.failedRefund,
      });
      await this.#until(refund.id, (why) => why.includes('event'));
      for (const account of ['acme', 'globex', 'initech']) {
        const id = `subscription-${account}`;
        await client.start(this.#agents.subscription, { account, period: 1 }, { id });
      }
      await this.#until(seededIds.waitsForTimer, (why) => why.includes('timer'));
      await client.runFlow(this.#catalogue, feed('2026-11-14', 40), {
        id: seededIds.completedFlow,
        tags: { feed: 'nordics' },
      });
      await signalFlow(client, seededIds.completedFlow, approved, { by: 'ada' });
      await client.wait(seededIds.completedFlow);
    });
    await this.#during(4.4 * hour, '71de0c4', async () => {
      await this.#toTheEnd(48_112, 48_113);
      await this.#toPayment(order(48_184, { method: 'card_flaky', amount: 1_299_007 }));
      await this.#toDelivery(order(48_190, { amount: 8_400 }));
      await this.#toDelivery(order(48_192));
      await this.#toDelivery(order(48_187));
      await this.#toDelivery(order(48_179));
      await this.#agent(seededIds.longHistory, 50);
    });
    await this.#during(3.2 * hour, '71de0c4', async () => {
      await this.#toTheEnd(48_120, 48_121);
      await this.#toPayment(order(48_203));
      await this.#toPayment(order(48_198));
      await this.#toPayment(order(48_197));
      for (const number of [48_150, 48_151, 48_152, 48_153]) {
        await this.#toPayment(order(number), { campaign: 'flash-sale' });
      }
      const { actor, reason } = { actor: 'support/agent-12', reason: 'customer changed the order' };
      await client.cancel(seededIds.canceled, { actor, reason, wait: true });
      await client.terminate(seededIds.terminated, { actor: 'ops/on-call', reason: 'test order' });
      await client.bulk.cancel(
        { tags: { campaign: 'flash-sale' } },
        { actor: 'ops/on-call', reason: 'campaign withdrawn' },
      );
      await client.runFlow(
        this.#catalogue,
        { ...feed('2026-11-15', 30), prices: 'broken' },
        { id: seededIds.failedFlow, tags: { feed: 'nordics' } },
      );
      await client.wait(seededIds.failedFlow);
    });
    await this.#during(2 * hour, '71de0c4', async () => {
      await this.#toTheEnd(48_130, 48_131);
      await this.#failed(48_137, 'card_declined');
      await this.#agent('agent-ticket-9128', 4);
      await client.deleteInstance('order-48101', { actor: 'ops/on-call' });
      // The first sweep of a worker would record the policies, after a random delay.
      await writeRetention(this.#params.provider, 'policies', policies);
      await client.retention.run({ policies, actor: 'ops/on-call' });
    });
    await this.#during(52 * minute, '9f2c1ab', async () => {
      for (const number of [48_140, 48_143, 48_188]) await this.#failed(number, 'card_declined');
      await this.#failed(48_145, 'card_expired');
      await this.#toTheEnd(48_154, 48_155);
      await client.pause(seededIds.paused, { actor: 'ops/on-call', reason: 'acquirer outage' });
    });
    // No worker has this task. Its oldest run has waited for 41 minutes.
    this.#params.clock.moveTo(this.#end - 41 * minute);
    await client.runTasks(
      Array.from({ length: 14 }, (_, index) => ({
        task: 'sendFax',
        input: {
          to: `+31 20 55${String(index).padStart(2, '0')}`,
          order: `order-${48_100 + index}`,
        },
      })),
    );
    await client.runTasks(
      Array.from({ length: 25 }, (_, index) => ({
        task: this.#tasks.sendNewsletter,
        input: `segment-${index}`,
      })),
    );
    await client.pause(
      { name: 'sendNewsletter', kind: 'task' },
      { actor: 'ops/on-call', reason: 'the mail provider throttles' },
    );
    await client.start('fulfilOrder', order(48_206), { id: seededIds.noWorker, version: '4' });
    await this.#during(14 * minute, '9f2c1ab', async () => {
      // The code of this build issues another command than the history has.
      for (const number of [48_201, 48_166, 48_031]) {
        await client.raiseEvent(`order-${number}`, delivered, { signedBy: 'J. Doe' });
        await this.#until(`order-${number}`, (why) => why.startsWith('Blocked'));
      }
      await this.#toTheEnd(48_161, 48_161);
      await this.#agent(seededIds.agent, 3);
      await client.start(fulfilOrder, order(48_195, { method: 'card_flaky' }), {
        id: 'order-48195',
        tags: { tenant: 'south' },
      });
      await this.#until('order-48195', (why) => why.includes('event'));
    });
    await writeSeries(this.#params.provider, this.#end);
  }

  /** The last three minutes before `end`: retries, a cancel, and a worker that dies. */
  async lastMinutes(end: number): Promise<void> {
    this.#end = end;
    const { provider } = this.#params;
    const client = this.#client;
    const names = this.#workerDefinitions();
    await this.#during(176_000, '9f2c1ab', async () => {
      await client.raiseEvent(seededIds.retrying, paymentConfirmed, { reference: 'pay-48184' });
      await this.#until(seededIds.retrying, (why) => why.includes('ttempt 2'));
    });
    this.#params.clock.moveTo(end - 130_000);
    await provider.registerWorkers([
      otherWorker('worker-eu-7', names, { buildId: '71de0c4', heartbeatMs: 10_000 }),
    ]);
    this.#stage.hold(
      ...Array.from({ length: 400 }, (_, index) => `resizeImages ${seededIds.flow} ${index + 190}`),
    );
    await this.#during(113_000, '9f2c1ab', async () => {
      await this.#until(seededIds.retrying, (why) => why.includes('ttempt 3'));
      await client.cancel(seededIds.canceling, {
        actor: 'support/agent-12',
        reason: 'customer changed the order',
      });
      await this.#until(seededIds.canceling, (why) => why.includes('ttempt 2'));
      await client.runFlow(this.#catalogue, feed('2026-11-16', 400), {
        id: seededIds.flow,
        tags: { feed: 'nordics' },
      });
      await this.#until(seededIds.flow, (why) => why.includes('for 25 operations'));
    });
    await this.#during(51_000, '9f2c1ab', async () => {
      await this.#until(seededIds.retrying, (why) => why.includes('ttempt 4'));
      await client.raiseEvent('order-48195', paymentConfirmed, { reference: 'pay-48195' });
      await this.#until('order-48195', (why) => why.includes('ttempt 2'));
    });
  }

  /** What is in progress, with live workers. */
  async present(): Promise<void> {
    const client = this.#client;
    const { provider } = this.#params;
    this.#stage.runInRealTime();
    this.#stage.hold(
      'reserveStock 48213',
      'scoreFraud 48211',
      'fetchRate 48209 ground',
      'refundCard 48190',
      'callModel agent-ticket-9140 5',
      'renderInvoice order-48195',
      'scanUpload upload-771',
      'renderReport revenue',
      'renderReport returns',
    );
    const names = this.#workerDefinitions();
    const far = { heartbeatMs: hour };
    await provider.registerWorkers([
      otherWorker('worker-eu-2', names, { ...far, slots: slots(36) }),
      otherWorker('worker-us-1', names, { ...far, buildId: '71de0c4', slots: slots(15) }),
    ]);
    // The short heartbeat shows the slots in use, and the leaked handler, within a second.
    const heartbeat = '500ms';
    await this.#startWorker('9f2c1ab', { name: 'worker-eu-3', cancelGrace: 50, heartbeat });
    await this.#startWorker('9f2c1ab', { name: 'worker-eu-1', heartbeat, retention: { policies } });
    for (const number of [48_209, 48_211, 48_213]) await this.#start(order(number));
    await this.#agent('agent-ticket-9140', 12, false);
    const { sendReceipt, renderInvoice, scanUpload } = this.#tasks;
    for (const [index, to] of [
      'ada@shop.example',
      'joe@slow.example',
      'x@bounce.example',
    ].entries()) {
      await client.runTask(sendReceipt, { to, order: `order-${48_160 + index}` });
    }
    await client.runTask(renderInvoice, 'order-48195');
    await this.#openSessions();
    await client.runTask(scanUpload, 'upload-771', { id: seededIds.leaked });
    await this.#until(seededIds.leaked, (why) => why.includes('worker-eu'));
    await client.cancel(seededIds.leaked, { reason: 'upload removed', actor: 'support/agent-3' });
    await client.wait(seededIds.leaked);
    await this.#until(seededIds.flow, (why) => why.includes('for 25 operations'));
    await this.#until(seededIds.running, (why) => why.includes('reserveStock'));
    await this.#until(`${seededIds.waitsForChild}:quote:ground`, (why) =>
      why.includes('fetchRate'),
    );
    await this.#until(seededIds.canceling, (why) => why.includes('refundCard'));
    await this.#poll('a worker to report its leaked handler', async () => {
      const workers = await client.workers();
      return workers.some(({ leaked }) => leaked === 1);
    });
  }

  async #openSessions(): Promise<void> {
    const client = this.#client;
    const { renderReport } = this.#tasks;
    const reports = await client.openSession({ label: 'report screen of ada' });
    await reports.setVariable('locale', 'nl-NL');
    const jobs = ['revenue', 'returns', 'stock'].map((name) => reports.submit(renderReport, name));
    for (const job of jobs) job.result().catch(() => undefined);
    await jobs[2]?.result();
    const search = await client.openSession({ label: 'search' });
    await search.submit(renderReport, 'search').result();
    await search.close();
    await client.openSession({ label: 'nightly import' });
  }

  async #putSchedules(): Promise<void> {
    const { schedules } = this.#client;
    await schedules.put('settle-payments', { task: this.#tasks.settlePayments, every: '1h' });
    await schedules.put('nightly-report', {
      cron: '0 2 * * *',
      timeZone: 'Europe/Amsterdam',
      task: this.#tasks.renderReport,
      input: 'nightly',
    });
    await schedules.pause('nightly-report');
    await schedules.put('partner-feed', {
      orchestration: this.#agents.importPartnerFeed,
      every: '30m',
      overlap: 'buffer',
      bufferLimit: 3,
    });
    await schedules.put('hourly-import', {
      flow: this.#catalogue,
      input: feed('hourly', 5),
      cron: '0 5 * * 1-5',
      options: { tags: { feed: 'hourly' } },
    });
  }

  /** Runs `body` with a worker, at a time before the end. */
  async #during(
    beforeEndMs: number,
    build: '71de0c4' | '9f2c1ab',
    body: () => Promise<void>,
  ): Promise<void> {
    this.#params.clock.moveTo(this.#end - beforeEndMs);
    // A worker that waits does not see that the clock was moved, except by its poll.
    const worker = await this.#startWorker(build, { name: 'worker-eu-1', pollInterval: 20 });
    try {
      await body();
    } finally {
      await worker.stop();
    }
  }

  #startWorker(build: '71de0c4' | '9f2c1ab', options: StartWorkerOptions) {
    const orders = build === '9f2c1ab' ? this.#orders : orderDefinitions(this.#stage, build);
    return this.#params.perdure.startWorker({
      orchestrations: [...orders.orchestrations, ...this.#agents.orchestrations],
      activities: [...orders.activities, ...this.#agents.activities],
      tasks: this.#tasks.tasks,
      flows: [this.#catalogue],
      buildId: build,
      activityConcurrency: 48,
      shutdownGrace: 200,
      ...options,
    });
  }

  #workerDefinitions() {
    const { orchestrations, activities } = this.#orders;
    return {
      orchestrations: orchestrations.map(({ name, version }) => ({ name, version })),
      activities: activities.map(({ name }) => name),
      tasks: this.#tasks.tasks.map(({ name }) => name),
    };
  }

  async #start(input: Order, tags: Readonly<Record<string, string>> = {}): Promise<string> {
    const tenant = Number(input.order) % 2 === 0 ? 'north' : 'south';
    const options = { id: `order-${input.order}`, tags: { tenant, ...tags } };
    const { id } = await this.#client.start(this.#orders.fulfilOrder, input, options);
    return id;
  }

  async #toPayment(input: Order, tags?: Readonly<Record<string, string>>): Promise<string> {
    const id = await this.#start(input, tags);
    await this.#untilStep(id, 'payment');
    return id;
  }

  async #toDelivery(input: Order): Promise<string> {
    const id = await this.#start(input);
    await this.#client.raiseEvent(id, paymentConfirmed, { reference: `pay-${input.order}` });
    await this.#untilStep(id, 'delivery');
    return id;
  }

  async #toTheEnd(from: number, to: number): Promise<void> {
    for (let number = from; number <= to; number += 1) {
      const id = await this.#toDelivery(order(number, { amount: 1_900 + (number % 83) * 130 }));
      await this.#client.raiseEvent(id, delivered, { signedBy: 'J. Doe' });
      await this.#client.wait(id);
      const mail = { to: `customer-${number}@shop.example`, order: id };
      await this.#client.runTask(this.#tasks.sendReceipt, mail);
    }
  }

  async #failed(number: number, method: string): Promise<void> {
    const id = await this.#start(order(number, { method, amount: 12_900 }));
    await this.#client.raiseEvent(id, paymentConfirmed, { reference: `pay-${number}` });
    await this.#client.wait(id);
  }

  async #agent(id: string, turns: number, toTheApproval = true): Promise<void> {
    const options = { id, tags: { team: 'support' } };
    await this.#client.start(this.#agents.supportAgent, { ticket: id, turns }, options);
    if (toTheApproval) await this.#until(id, (why) => why.includes('approval'));
  }

  async #untilStep(id: string, step: string): Promise<void> {
    await this.#poll(`${id} to reach step ${step}`, async () => {
      const { customStatus } = (await this.#client.get(id)) ?? {};
      return (customStatus as { readonly step?: string } | undefined)?.step === step;
    });
  }

  async #until(id: string, holds: (why: string) => boolean): Promise<void> {
    let text = '';
    await this.#poll(id, async () => {
      ({ text } = await this.#client.why(id));
      return holds(text);
    }).catch((error: unknown) => {
      throw new Error(`Unexpected state of ${id}: ${text}`, { cause: error });
    });
  }

  async #poll(what: string, holds: () => Promise<boolean>): Promise<void> {
    for (let round = 0; round < 1_000; round += 1) {
      if (await holds()) return;
      await pause(10);
    }
    throw new Error(`Timed out waiting for ${what}.`);
  }
}

function order(number: number, fields: Partial<Order> = {}): Order {
  return { order: String(number), amount: 4_900, currency: 'EUR', method: 'card_7c21', ...fields };
}

function feed(day: string, images: number) {
  return { feed: `nordics-${day}`, images, prices: 'ok' as const };
}

function slots(inUse: number) {
  return { activities: 48, orchestrations: 256, inUse };
}
