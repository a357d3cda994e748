import { Worker } from '../runtime/worker.ts';

export const testsMayImportAnything = Worker;
