import { Perdure } from 'perdure';
import { serve } from 'perdure/server';

/** The dashboard of the demo. */
export interface DemoDashboard {
  readonly url: string;
  /** Counts the orders in the store. */
  readonly countOrders: () => Promise<{ readonly completed: number; readonly open: number }>;
  close(): Promise<void>;
}

/** Serves the dashboard of a store on a free port of this machine. Runs no worker. */
export async function openDashboard(storePath: string): Promise<DemoDashboard> {
  const perdure = await Perdure.open(storePath);
  const dashboard = { environment: 'demo' };
  const server = await serve(perdure, { port: 0, dashboard });
  return {
    url: server.url,
    async countOrders() {
      const { instances } = await perdure.client.systemMetrics();
      return { completed: instances.completed, open: instances.pending + instances.running };
    },
    async close() {
      await server.close();
      await perdure.close();
    },
  };
}
