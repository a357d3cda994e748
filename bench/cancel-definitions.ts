import { activity, orchestration, type OrchestrationDefinition } from 'perdure';

/** An activity that runs until it is aborted, and reports its start and its abort. */
export function createHolding(heard: {
  readonly started: (instanceId: string) => void;
  readonly told: (instanceId: string) => void;
}) {
  const hold = activity('hold', async (ctx) => {
    const told = new Promise<void>((resolve) => {
      ctx.signal.addEventListener(
        'abort',
        () => {
          heard.told(ctx.instanceId);
          resolve();
        },
        { once: true },
      );
    });
    heard.started(ctx.instanceId);
    await told;
    ctx.throwIfCanceled();
  });
  const holding: OrchestrationDefinition<void, void> = orchestration('holding', async (ctx) => {
    await ctx.call(hold);
  });
  return { holding, definitions: { orchestrations: [holding], activities: [hold] } };
}
