export type Client = import('../runtime/worker.ts').Worker;
