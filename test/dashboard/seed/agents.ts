import { activity, orchestration, task } from '../../../src/index.ts';
import type { Stage } from './stage.ts';

/** Support agents, subscriptions and imports. */
export function agentDefinitions(stage: Stage) {
  const callModel = activity(
    'callModel',
    async (ctx, { ticket, turn }: { readonly ticket: string; readonly turn: number }) => {
      await ctx.emit({ turn, text: `Reading ticket ${ticket}` });
      await stage.work(ctx, `callModel ${ticket} ${turn}`, 1_400 + (turn % 7) * 300);
      return { tool: turn % 3 === 0 ? 'searchOrders' : 'readPolicy', tokens: 812 + turn * 37 };
    },
    { retry: { maxAttempts: 5 } },
  );
  const callTool = activity(
    'callTool',
    async (
      ctx,
      { ticket, tool, turn }: { ticket: string; tool: string; turn: number },
    ): Promise<unknown> => {
      await stage.work(ctx, `callTool ${ticket} ${turn}`, 220);
      return tool === 'searchOrders' ? { orders: [`order-${48_000 + turn}`] } : { policy: 'R-14' };
    },
  );
  const chargeSubscription = activity('chargeSubscription', async (ctx, account: string) => {
    await stage.work(ctx, `chargeSubscription ${account}`, 700);
    return { invoice: `inv-${account}` };
  });

  const supportAgent = orchestration(
    'supportAgent',
    async (ctx, { ticket, turns }: { readonly ticket: string; readonly turns: number }) => {
      for (let turn = 1; turn <= turns; turn += 1) {
        const { tool } = await ctx.call(callModel, { ticket, turn });
        await ctx.call(callTool, { ticket, tool, turn });
        ctx.setCustomStatus({ turn, of: turns });
      }
      ctx.setTags({ stage: 'approval' });
      const approval = await ctx.waitFor('approval', { timeout: '1d' });
      return { ticket, approval };
    },
    { version: '12' },
  );
  const subscription = orchestration(
    'subscription',
    async (ctx, { account, period }: { readonly account: string; readonly period: number }) => {
      await ctx.call(chargeSubscription, account);
      if (period < 3) return ctx.continueAsNew({ account, period: period + 1 });
      await ctx.sleep('30d');
      return ctx.continueAsNew({ account, period: period + 1 });
    },
  );
  const importPartnerFeed = orchestration('importPartnerFeed', async (ctx) => {
    ctx.setCustomStatus({ feed: 'nordics' });
    await ctx.waitFor('feedReady');
  });
  return {
    supportAgent,
    subscription,
    importPartnerFeed,
    orchestrations: [supportAgent, subscription, importPartnerFeed],
    activities: [callModel, callTool, chargeSubscription],
  };
}

/** Tasks of the shop. No worker has `sendFax`. */
export function taskDefinitions(stage: Stage) {
  const sendReceipt = task(
    'sendReceipt',
    async (ctx, mail: { readonly to: string; readonly order: string }) => {
      await stage.work(ctx, `sendReceipt ${mail.order}`, 90);
      if (mail.to.endsWith('@bounce.example')) {
        throw Object.assign(new Error(`550 mailbox ${mail.to} does not exist`), {
          code: 'SMTP_550',
        });
      }
      if (mail.to.endsWith('@slow.example')) throw new Error('421 too many connections');
      return { messageId: `<${mail.order}@shop.example>` };
    },
    { retry: { maxAttempts: 3, backoff: 'fixed', initialDelay: '5m', nonRetryable: ['SMTP_550'] } },
  );
  const renderInvoice = task(
    'renderInvoice',
    async (ctx, order: string) => {
      await stage.work(ctx, `renderInvoice ${order}`, 3_100);
      return { pages: 2, pdf: `https://files.example/${order}.pdf` };
    },
    { concurrency: 8 },
  );
  const renderReport = task('renderReport', async (ctx, report: string) => {
    await ctx.emit({ report, progress: 0.4 });
    await stage.work(ctx, `renderReport ${report}`, 500);
    return { report, rows: 1_204 };
  });
  const scanUpload = task('scanUpload', async (ctx, upload: string) => {
    await ctx.emit({ upload });
    await stage.ignoreSignal(`scanUpload ${upload}`);
    return { upload, clean: true };
  });
  const settlePayments = task('settlePayments', async (ctx) => {
    await stage.work(ctx, 'settlePayments', 4_200);
    return { settled: 318 };
  });
  const sendNewsletter = task('sendNewsletter', async (ctx, segment: string) => {
    await stage.work(ctx, `sendNewsletter ${segment}`, 900);
  });
  return {
    sendReceipt,
    sendNewsletter,
    renderInvoice,
    renderReport,
    scanUpload,
    settlePayments,
    tasks: [sendNewsletter, sendReceipt, renderInvoice, renderReport, scanUpload, settlePayments],
  };
}
