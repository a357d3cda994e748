import type { Contract } from './contract.ts';

export const server: Contract = 'http';
