import type { Context } from '../orchestration/context.ts';

export type Turn = Context;
