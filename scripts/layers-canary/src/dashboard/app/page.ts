import type { Contract } from '../../server/routes/contract.ts';
import { server } from '../../server/server.ts';
import { other } from './other-page.ts';
import type { other as typesMayRefer } from './page-types.ts';

export const page: Contract = server;
export const next: typeof typesMayRefer = other;
