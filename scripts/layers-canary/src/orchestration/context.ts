import { status } from '../model/status.ts';

export type Context = typeof status;
