export type { Worker } from '../runtime/worker.ts';
export const status = 'Running';
