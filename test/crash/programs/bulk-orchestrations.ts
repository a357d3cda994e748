import { orchestration } from '../../../src/index.ts';

/** Ends when the event `go` arrives, or when it is canceled. */
export const waits = orchestration('waits', async (ctx) => ctx.waitFor('go'));
