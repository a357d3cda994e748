import type { Contract } from './routes/contract.ts';

export const server: Contract = 'http';
