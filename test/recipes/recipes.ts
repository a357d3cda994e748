/** The recipes of docs/guides/recipes.md, which the tests run. */
import type { DynamicModule } from '@nestjs/common';
import { Perdure, type StartWorkerOptions } from 'perdure';

class PerdureModule {
  readonly name = 'perdure';
}

export function perdureModule(url: string, definitions: StartWorkerOptions): DynamicModule {
  return {
    module: PerdureModule,
    global: true,
    providers: [
      { provide: Perdure, useFactory: () => Perdure.open(url) },
      {
        provide: 'PERDURE_WORKER',
        inject: [Perdure],
        useFactory: async (perdure: Perdure) => {
          await perdure.startWorker(definitions);
          // Running handlers have `shutdownGrace` to finish; then their work is handed back.
          return { onApplicationShutdown: () => perdure.close() };
        },
      },
    ],
    exports: [Perdure],
  };
}

/** Handles one invocation: works on what is due, and leaves the rest for the next one. */
export async function invoke(url: string, definitions: StartWorkerOptions): Promise<string> {
  await using perdure = await Perdure.open(url);
  const worker = await perdure.startWorker({ ...definitions, shutdownGrace: '3s' });
  // Less than the limit of the platform, because the shutdown takes time too.
  const { isDrained } = await worker.drain({ maxMs: 20_000 });
  return isDrained ? 'nothing left to do' : 'invoke again';
}

/** `app/api/orders/route.ts` of Next.js. The worker runs in `instrumentation.ts`, or in a process of its own. */
export function createOrdersRoute(perdure: Perdure) {
  return {
    POST: async (request: Request): Promise<Response> => {
      const { id, item } = (await request.json()) as { readonly id: string; readonly item: string };
      await perdure.client.start('order', item, { id: `order-${id}` });
      return Response.json({ id }, { status: 202 });
    },
    GET: async (request: Request): Promise<Response> => {
      const id = new URL(request.url).searchParams.get('id') ?? '';
      const order = await perdure.client.get(`order-${id}`);
      return order === undefined
        ? Response.json({ error: 'unknown order' }, { status: 404 })
        : Response.json({ id, status: order.status, output: order.output });
    },
  };
}
